"""Where a submitted plan writes, checked before it runs.

`check_sinks` refuses what is bound to fail at the end of the job: a place that is taken, columns
that do not fit, a target that can't be had.
"""

from __future__ import annotations

import os

import pyarrow as pa

from fabric.control import control_pb2 as pb
from fabric.control.datasets import live_name
from fabric.coordinator.catalog.replicas import check_count
from fabric.coordinator.catalog.transactions import check_layout, read_schema
from fabric.coordinator.catalog.views import check_names
from fabric.coordinator.submit.guard import placed
from fabric.coordinator.submit.splits import Surroundings
from fabric.errors import ConfigError, PlanError
from fabric.ids import check_name
from fabric.object_urls import is_object_url
from fabric.plan.nodes import Exchange, Plan, Sink
from fabric.plan.schema import schema_of
from fabric.plan.stream_facts import stream_of
from fabric.plan.targets import (
    DatasetTarget,
    KafkaTarget,
    PostgresTarget,
    StreamFileTarget,
    Target,
)
from fabric.plan.types import flat_type


def check_sinks(plan: Plan, around: Surroundings) -> None:
    """Refuse what is bound to fail at the end of the job."""
    taken: set[str] = set()
    for node in (plan.root, *plan.root.children):
        if not isinstance(node, Sink):
            continue
        _check_target(node, around)
        place = _own_place(node.target)
        if place in taken:
            raise PlanError(
                f"two streams of this job are written to {place}; give each a place of its own, "
                'write their union, or use mode="append"',
                node=node.path,
            )
        taken |= {place} if place else set()


def _own_place(target: Target) -> str:
    """Where nothing else is to be written; empty where that makes no difference."""
    match target:
        case StreamFileTarget(path=path, mode="error"):
            return path if is_object_url(path) else os.path.realpath(path)
        case DatasetTarget(name=name, mode="create" | "view"):
            return f"dataset {name!r}"
        case PostgresTarget(table=table, schema=schema, mode="create" | "overwrite"):
            return f"the table {schema}.{table}"
    return ""


def _check_target(sink: Sink, around: Surroundings) -> None:
    target = sink.target
    with placed(sink):
        if isinstance(target, KafkaTarget):
            from fabric.io.kafka.sink_check import check_target as check_kafka

            interval_s = around.interval_s if stream_of(sink.input) is not None else 0.0
            check_kafka(target, schema_of(sink.input), interval_s)
        elif isinstance(target, DatasetTarget):
            _check_dataset_target(target, around, sink)
        else:
            from fabric.io.sinks import check_stream_target, check_target

            check_target(target, schema_of(sink.input), around.goes_on)
            check_stream_target(target, schema_of(sink.input), around.goes_on)


def _check_dataset_target(target: DatasetTarget, around: Surroundings, sink: Sink) -> None:
    of_stream = stream_of(sink.input) is not None
    current = around.datasets.get(target.name)
    if target.mode == "view":
        _check_view(target, around, sink)
        return
    if around.stream and around.embedded:
        raise PlanError(
            f"dataset {target.name!r} ends with this session, and the stream {around.stream!r} "
            "goes on after it: its earlier rows would be lost. Write to files, to a table or a "
            "topic, or run it on agents"
        )
    if target.mode == "create" and current is not None and not around.goes_on:
        if of_stream:
            from fabric.io.sinks.dataset import stream_refused

            raise stream_refused(current)
        raise ConfigError(
            f"dataset {target.name!r} exists already; write with mode 'append' or 'overwrite'"
        )
    if target.mode == "append" and current is not None:
        _check_columns(current, schema_of(sink.input), "stream" if of_stream else "table")
        check_layout(target.keys, target.n_partitions, target.replicas, current)
    elif around.agents:
        check_count(target.replicas, len(around.agents))


def _check_view(target: DatasetTarget, around: Surroundings, sink: Sink) -> None:
    """A view takes the place of one whose job has ended, and all rows of a key come to one task."""
    sent = sink.input
    if not (isinstance(sent, Exchange) and sent.kind == "hash" and sent.keys == target.keys):
        raise PlanError(f"the rows of a view are exchanged by its key; write: .{target.text()}")
    check_name(live_name(target.name), "view name")
    check_names(around.datasets, target.name, around.running)


def _check_columns(current: pb.DatasetLocation, schema: pa.Schema, what: str) -> None:
    from fabric.io.schemas import difference

    there, given = (
        pa.schema([(field.name, flat_type(field.type)) for field in one])
        for one in (read_schema(current.schema), schema)
    )
    if differs := difference(there, given):
        raise PlanError(
            f"this {what} can't be appended to dataset {current.name!r}: {differs}; .cast or "
            ".select its columns, or write to another dataset"
        )
