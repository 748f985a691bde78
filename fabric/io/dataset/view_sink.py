"""Writing a view from the tasks of a job, and showing it checkpoint by checkpoint.

One job: the sink of a `DatasetTarget` in mode "view": `open_view`, and what `fabric.io.sinks` does
with its handles. The rows stay with the tasks (`views.py`); the coordinator is told where.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from fabric.checkpoint.manifest import FINAL
from fabric.config import StateBackend
from fabric.control import control_pb2 as pb
from fabric.control.datasets import is_kept, job_of, live_name
from fabric.errors import NotFoundError
from fabric.io.dataset.access import current
from fabric.io.dataset.views import Place, ViewWriter, moment_at
from fabric.io.sinks.protocol import Handle
from fabric.plan.sources import DatasetTarget
from fabric.state.column_stores import column_engine, open_column_store, stored_type


def open_view(
    target: DatasetTarget,
    place: Place,
    schema: pa.Schema,
    scratch: Path | None,
    state: StateBackend,
) -> ViewWriter:
    """The writer of one task; it keeps rows in files below `scratch` where the job's state does."""
    stored = stored_schema(target, schema)
    engine = "memory" if column_engine(state) == "memory" or scratch is None else "arrow"
    store = open_column_store(engine, stored, scratch)
    return ViewWriter(target, place, stored, store, in_memory=engine == "memory")


def stored_schema(target: DatasetTarget, schema: pa.Schema) -> pa.Schema:
    """The columns of a view: those of its rows without their kind, dictionaries as values."""
    return pa.schema(
        [each.with_type(stored_type(each.type)) for each in schema if each.name != target.kind]
    )


def publish(handles: Sequence[Handle]) -> None:
    """Show the newest checkpoint that all tasks are in; may be repeated."""
    by_view: dict[str, list[Handle]] = {}
    for handle in handles:
        by_view.setdefault(handle.facts["prefix"], []).append(handle)
    for prefix, group in by_view.items():
        if (view := _shown(prefix, [handle.facts for handle in group])) is not None:
            reply = current().control.dataset(pb.DatasetRequest(view=view))
            current().locations.merge(pb.Locations(datasets=reply.datasets))


def take_back(handles: Sequence[Handle]) -> None:
    """The next checkpoint takes its place; no task has these rows any more."""


def abandon(handles: Sequence[Handle]) -> None:
    """It was shown to nobody; files go with the task, or with a sweep."""


def discard(target: DatasetTarget, job: str, *, published: bool) -> None:
    """The job has ended: unless it came to its end, nobody has the rows any more."""
    access = current()
    access.views.forget(target.name, job)
    if published:
        return
    for name in (target.name, live_name(target.name)):
        with suppress(NotFoundError):
            found = access.location(name)
            if job_of(found) == job and is_kept(found):
                access.control.dataset(pb.DatasetRequest(drop=pb.DatasetDrop(name=name)))
                access.locations.forget_dataset(name)


def _shown(prefix: str, facts: list[dict[str, Any]]) -> pb.DatasetView | None:
    """The newest checkpoint that all tasks are in; those that have ended are in all that follow."""
    n = facts[0]["partitions"]
    for checkpoint in sorted({each["checkpoint"] for each in facts}, reverse=True):
        there = {
            each["partition"]: each for each in facts if each["checkpoint"] in (FINAL, checkpoint)
        }
        if len(there) == n:
            return pb.DatasetView(
                name=facts[0]["dataset"],
                schema=base64.b64decode(facts[0]["schema"]),
                keys=facts[0]["keys"],
                owners=[there[partition]["agent"] for partition in range(n)],
                transaction=prefix + moment_at(checkpoint),
                rows=sum(each["rows"] for each in there.values()),
            )
    return None
