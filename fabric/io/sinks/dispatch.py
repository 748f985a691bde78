"""Which module writes which target.

One job: dispatch. Flight and dataset modules are imported when the first such target comes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa

from fabric.errors import InternalError, PlanError
from fabric.ids import TaskId
from fabric.io.sinks.protocol import Handle, SinkWriter, unfolded
from fabric.plan.sources import (
    DatasetTarget,
    FileTarget,
    FlightTarget,
    GateTarget,
    StreamFileTarget,
    StreamTarget,
    Target,
)


def check_target(target: Target) -> None:
    """Refuse a target that can't be written, before the job starts."""
    if isinstance(target, FileTarget):
        from fabric.io.sinks import files

        files.check_target(target)


def open_sink(target: Target, schema: pa.Schema, task: TaskId, n_tasks: int) -> SinkWriter:
    """One task's writer of `target`.

    Raises
    ------
    PlanError
        The target can't hold a column of `schema`, or exists and may not be overwritten.
    StorageError
        The place can't be written.
    """
    match target:
        case FileTarget():
            from fabric.io.sinks import files

            return files.open_sink(target, schema, task, n_tasks)
        case GateTarget():
            from fabric.io.sinks import gate

            return gate.open_sink(target, schema, task, n_tasks)
        case FlightTarget():
            from fabric.io import flight

            return cast(SinkWriter, flight.open_sink(target, schema, task, n_tasks))
        case DatasetTarget():
            from fabric.io import dataset

            return cast(SinkWriter, dataset.open_sink(target, schema, task, n_tasks))
        case _:
            raise PlanError(f"nothing here can write a {type(target).__name__}")


def publish(handles: Sequence[bytes]) -> None:
    """Make the prepared output of all tasks of one sink visible; may be repeated."""
    for module, group in _grouped(handles).items():
        _module(module).publish(group)


def abandon(handles: Sequence[bytes]) -> None:
    """Remove the prepared output of all tasks of one sink; may be repeated."""
    for module, group in _grouped(handles).items():
        _module(module).abandon(group)


def drop(handles: Sequence[bytes]) -> None:
    """Remove the prepared output of single attempts: others took over; may be repeated.

    Only files lie where somebody would find them: a dataset's commit lists the attempts it wants.
    """
    for kind, group in _grouped(handles).items():
        if kind in ("file", "stream-file"):
            _module(kind).drop(group)


def discard(target: Target | StreamTarget, job: str, stage: int) -> None:
    """Remove whatever the tasks of a stage wrote aside, prepared or not; may be repeated."""
    if isinstance(target, FileTarget):
        from fabric.io.sinks import files

        files.discard(target, job, stage)
    elif isinstance(target, StreamFileTarget):
        from fabric.io.streams.sinks import files as stream_files

        stream_files.discard(target, job, stage)


def _grouped(handles: Sequence[bytes]) -> dict[str, list[Handle]]:
    groups: dict[str, list[Handle]] = defaultdict(list)
    for handle in unfolded(handles):
        groups[handle.kind].append(handle)
    return groups


def _module(kind: str) -> Any:
    match kind:
        case "file":
            from fabric.io.sinks import files

            return files
        case "stream-file":
            from fabric.io.streams.sinks import files as stream_files

            return stream_files
        case "gate":
            from fabric.io.sinks import gate

            return gate
        case "flight":
            from fabric.io import flight

            return flight
        case "dataset":
            from fabric.io import dataset

            return dataset
        case _:
            raise InternalError(f"no sink makes handles of kind {kind[:40]!r}")
