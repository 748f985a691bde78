"""A submitted plan made ready to run.

One job: decode, check, ask the sources for their splits and facts, optimise, cut into stages,
encode the stages. A submitted plan is not trusted before it was decoded and checked. Reading file
footers is the only I/O, and it happens here, before the pure optimizer and planner are called.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from fabric.cancellation import check_wanted
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.control.datasets import by_partition, is_kept, live_name
from fabric.coordinator.catalog.catalogue import check_layout, read_schema
from fabric.coordinator.catalog.replicas import check_count
from fabric.coordinator.catalog.views import check_names
from fabric.coordinator.optimizer.cardinality import Cardinality
from fabric.coordinator.optimizer.optimizer import optimize
from fabric.coordinator.optimizer.trace import Fired, effects_text
from fabric.coordinator.planner.draft import MAX_PARALLELISM
from fabric.coordinator.planner.estimate import BROADCAST_BYTES_MAX
from fabric.coordinator.planner.planner import plan_stages
from fabric.coordinator.planner.stages import Stage, StageGraph, graph_text
from fabric.coordinator.planner.states import state_lines
from fabric.coordinator.submit.constants import constant_value
from fabric.coordinator.submit.facts import needed, source_facts
from fabric.coordinator.submit.guard import check_allowed
from fabric.errors import ConfigError, DataError, FabricError, NotFoundError, PlanError
from fabric.ids import check_name
from fabric.operators.functions.trust import signed
from fabric.plan.check import check
from fabric.plan.codec import decode, encode
from fabric.plan.nodes import Exchange, NodeConfig, Plan, Scan, Sink, StreamScan
from fabric.plan.place_text import target_text
from fabric.plan.printer import tree
from fabric.plan.schema import schema_of
from fabric.plan.sources import (
    DatasetSource,
    DatasetTarget,
    FileTarget,
    FlightSource,
    KafkaTarget,
    MemorySource,
    PostgresTarget,
    ReplayStream,
    Source,
    Split,
    StreamFileTarget,
    Target,
)
from fabric.plan.statistics import SourceFacts
from fabric.plan.stream_facts import is_endless, stream_of
from fabric.plan.svg import svg
from fabric.plan.types import flat_type
from fabric.plan.walk import walk
from fabric.recent import Recent
from fabric.security.tokens import Signer
from fabric.state.column_stores import check_engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What planning must know of the fabric: a copy, so that no lock is held meanwhile.

    `datasets` are those there are, `agents` the attached ones, `n_cpus` their processors together,
    `parallelism` the default, `broadcast_bytes` what a side of a join may have to be sent to all,
    `ask_s` how long a Flight server that the plan reads from may take to answer, `interval_s` how
    far apart its checkpoints are, `running` the jobs that have not ended.
    """

    parallelism: int
    n_cpus: int
    embedded: bool
    datasets: Mapping[str, pb.DatasetLocation]
    agents: frozenset[str]
    broadcast_bytes: int = BROADCAST_BYTES_MAX
    ask_s: float = 10.0
    interval_s: float = 10.0
    running: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A plan in all its forms."""

    plan: Plan
    optimised: Plan
    graph: StageGraph
    schema: pa.Schema
    fired: tuple[Fired, ...]
    encoded: list[tuple[bytes, ...]] = field(default_factory=list, compare=False, repr=False)

    def fragments(self) -> tuple[bytes, ...]:
        """The stages as they travel."""
        if not self.encoded:
            self.encoded.append(tuple(map(_encoded, self.graph.stages)))
        return self.encoded[0]

    def explain(self, checkpoint: CheckpointConfig) -> pb.ExplainReply:
        """The plan as a person reads it; where its state lies is what `checkpoint` says."""
        return pb.ExplainReply(
            plan=tree(self.plan.root),
            rules=effects_text(self.fired),
            rules_verbose=effects_text(self.fired, verbose=True),
            optimised=tree(self.optimised.root),
            stages=graph_text(self.graph, partial(state_lines, self.graph, config=checkpoint)),
            svg=svg(self.optimised.root),
        )


@dataclass(frozen=True, slots=True)
class _Known:
    """A plan as it was prepared before, and all that it was prepared by besides its bytes."""

    prepared: Prepared
    facts: Mapping[str, SourceFacts]
    read: Mapping[str, Sequence[Split]]
    parallelism: int
    broadcast_bytes: int


def _encoded(stage: Stage) -> bytes:
    check_wanted()
    return encode(Plan(stage.root))


_RECENT: Recent[_Known] = Recent(64)
_REMEMBERED_MAX = 10_000
"""Columns and splits of a plan that is remembered, counted at every node."""


def prepare(
    request: pb.SubmitRequest,
    around: Surroundings,
    plan_bytes_max: int,
    signer: Signer | None = None,
) -> Prepared:
    """Make a submitted plan ready; raises a `FabricError` that names the node that is wrong.

    Whoever got here may submit: the functions of the plan are signed, so that agents load them.
    """
    if len(request.plan) > plan_bytes_max:
        raise PlanError(
            f"the plan takes {len(request.plan)} bytes, at most {plan_bytes_max} are allowed; "
            "read large constants from a file or dataset instead"
        )
    if request.parallelism > MAX_PARALLELISM:
        raise ConfigError(f"parallelism must be 1 to {MAX_PARALLELISM}, got {request.parallelism}")
    known = _RECENT.get(request.plan)
    given = check(decode(request.plan)) if known is None else known.prepared.plan
    check_allowed(given)
    _check_engines(given)
    plan = _signed(given, signer)
    known = known if plan is given else None  # signatures are for whoever asks now
    _check_sink(plan, around)
    parallelism = request.parallelism or around.parallelism
    _refuse_views(plan, around)
    splits = _splits(plan, around, parallelism)
    facts = source_facts(plan.root, splits, around.datasets)
    if known is not None and known.facts == facts:
        optimised, fired = known.prepared.optimised, known.prepared.fired
    else:
        known = None
        optimised, fired = _optimised(plan, facts)
    read = _read(optimised, splits)
    asked = (read, parallelism, around.broadcast_bytes)
    if known is not None and (known.read, known.parallelism, known.broadcast_bytes) == asked:
        return known.prepared
    prepared = Prepared(
        plan=plan,
        optimised=optimised,
        graph=plan_stages(
            optimised,
            read,
            parallelism,
            result_path=plan.root.path,
            likely_rows=Cardinality(facts).rows,
            broadcast_bytes=around.broadcast_bytes,
        ),
        schema=schema_of(plan.root),
        fired=fired,
    )
    if plan is given and _is_small(plan, read):
        _RECENT.keep(request.plan, _Known(prepared, facts, *asked))
    return prepared


def _check_engines(plan: Plan) -> None:
    """Refuse a step's state that needs a package which is not installed."""
    for path, settings in plan.config:
        try:
            check_engine(settings.state or "memory")
        except ConfigError as error:
            raise error.at(node=path) from None


def _is_small(plan: Plan, read: Mapping[str, Sequence[Split]]) -> bool:
    """Whether it costs little memory to remember what came of a plan."""
    n_columns = sum(len(schema_of(node)) for node in walk(plan.root))
    return n_columns + sum(map(len, read.values())) <= _REMEMBERED_MAX


def _read(plan: Plan, splits: Mapping[str, Sequence[Split]]) -> dict[str, Sequence[Split]]:
    """The splits of every scan that must be read."""
    return {
        node.path: needed(node, splits[node.path]) if isinstance(node, Scan) else splits[node.path]
        for node in walk(plan.root)
        if isinstance(node, Scan | StreamScan)
    }


def _optimised(plan: Plan, facts: Mapping[str, SourceFacts]) -> tuple[Plan, tuple[Fired, ...]]:
    fired: list[Fired] = []
    found = optimize(plan, facts, evaluate=constant_value, fired=fired)
    return found, tuple(fired)


def _signed(plan: Plan, signer: Signer | None) -> Plan:
    root = plan.root if signer is None else signed(plan.root, signer)
    return plan if root is plan.root else Plan(root, plan.config)


def _check_sink(plan: Plan, around: Surroundings) -> None:
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
            return os.path.realpath(path)
        case DatasetTarget(name=name, mode="create" | "view"):
            return f"dataset {name!r}"
        case PostgresTarget(table=table, schema=schema, mode="create" | "overwrite"):
            return f"the table {schema}.{table}"
    return ""


def _check_target(sink: Sink, around: Surroundings) -> None:
    target = sink.target
    try:
        if isinstance(target, FileTarget):
            from fabric.io.sinks import check_target

            check_target(target, schema_of(sink.input))
        elif isinstance(target, StreamFileTarget):
            from fabric.io.streams.sinks import check_stream_target

            check_stream_target(target, schema_of(sink.input))
        elif isinstance(target, KafkaTarget):
            from fabric.io.kafka.sink_check import check_target as check_kafka

            interval_s = around.interval_s if stream_of(sink.input) is not None else 0.0
            check_kafka(target, schema_of(sink.input), interval_s)
        elif isinstance(target, DatasetTarget):
            _check_dataset_target(target, around, sink)
        elif isinstance(target, PostgresTarget):
            from fabric.io.postgres import sink as postgres

            postgres.check_target(target, schema_of(sink.input))
    except FabricError as error:
        raise error.at(node=sink.path) from error.__cause__


def _check_dataset_target(target: DatasetTarget, around: Surroundings, sink: Sink) -> None:
    of_stream = stream_of(sink.input) is not None
    current = around.datasets.get(target.name)
    if target.mode == "view":
        _check_view(target, around, sink)
        return
    if target.mode == "create" and current is not None:
        if of_stream:
            from fabric.io.dataset import stream_refused

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
        raise PlanError(
            f"the rows of a view are exchanged by its key; write: .{target_text(target)}"
        )
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


def _refuse_views(plan: Plan, around: Surroundings) -> None:
    """A stream can't read a view that changes: after a failure nobody has what it read before."""
    scans = [node for node in walk(plan.root) if isinstance(node, Scan)]
    for scan in scans if is_endless(plan.root) else ():
        name = scan.source.name if isinstance(scan.source, DatasetSource) else ""
        if name in around.datasets and is_kept(around.datasets[name]):
            raise PlanError(
                f"{name!r} is a view of a running job, and a stream would read it once, as of now; "
                "write its rows to a dataset first: "
                f'session.view("{name}").read().write_dataset("…")',
                node=scan.path,
            )


def _splits(plan: Plan, around: Surroundings, parallelism: int) -> dict[str, Sequence[Split]]:
    config = dict(plan.config)
    found: dict[str, Sequence[Split]] = {}
    for node in walk(plan.root):
        if not isinstance(node, Scan | StreamScan) or node.path in found:
            continue
        n = config.get(node.path, NodeConfig()).parallelism or parallelism
        try:
            found[node.path] = _asked_splits(node, around, max(n, around.n_cpus))
        except FabricError as error:
            raise error.at(node=node.path) from error.__cause__
    return found


def _asked_splits(scan: Scan | StreamScan, around: Surroundings, n: int) -> Sequence[Split]:
    source: object = scan.source
    source = source.source if isinstance(source, ReplayStream) else source
    if around.embedded or not isinstance(source, FlightSource):
        return _scan_splits(scan, around, n)
    from fabric.io.flight.asking import asked

    return asked(source.uri, lambda: _scan_splits(scan, around, n), around.ask_s)


def _scan_splits(scan: Scan | StreamScan, around: Surroundings, n_target: int) -> Sequence[Split]:
    if isinstance(scan, Scan):
        return _source_splits(scan.source, scan.schema, around, n_target)
    from fabric.io.streams.splits import enumerate_stream

    def splits_of(source: Source) -> list[Split]:
        return list(_source_splits(source, scan.schema, around, n_target))

    return enumerate_stream(scan.source, splits_of)


def _source_splits(
    source: Source, schema: pa.Schema, around: Surroundings, n_target: int
) -> Sequence[Split]:
    if isinstance(source, DatasetSource):
        return _dataset_splits(source, schema, around)
    if isinstance(source, MemorySource) and not around.embedded:
        raise PlanError(
            "a table in memory can only be read by an embedded fabric; write it as a dataset first"
        )
    from fabric.io.registry import enumerate_splits

    return enumerate_splits(source, n_target)


def _dataset_splits(source: DatasetSource, schema: pa.Schema, around: Surroundings) -> list[Split]:
    """One split a partition, to be read from one of its owners."""
    location = around.datasets.get(source.name)
    if location is None or source.version not in (0, location.version):
        version = f" of version {source.version}" if source.version else ""
        raise NotFoundError(f"there is no dataset {source.name!r}{version}")
    found = read_schema(location.schema)
    if not found.equals(schema):
        raise DataError(
            f"dataset {source.name!r} has columns {_columns(found)}, the plan expects "
            f"{_columns(schema)}; make the plan again"
        )
    for partition, owners in enumerate(by_partition(location)):
        if around.agents.isdisjoint(owners):
            raise NotFoundError(
                f"partition {partition} of dataset {source.name!r} lies with agent "
                f"{' and '.join(owners)}, which is not attached; start that agent again with the "
                "same folder",
                agent=owners[0] if owners else "",
            )
    from fabric.io.dataset.splits import dataset_splits

    return dataset_splits(location)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
