"""Which module writes which target, of bounded jobs and of streams.

One job: dispatch. Modules are imported when the first such target comes. What a stream wrote before
a checkpoint is seen once that checkpoint is complete. Exactly once into files, datasets of a fabric
and tables of PostgreSQL; any other Flight server has no transactions, gets rows as they come, and
after a restore gets those since the last checkpoint again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from fabric.config import StateBackend
from fabric.errors import InternalError, PlanError
from fabric.ids import TaskId
from fabric.io import places
from fabric.io.sinks.protocol import Epochs, Handle, SinkWriter, unfolded
from fabric.plan.targets import (
    BlackholeTarget,
    DatasetTarget,
    FileTarget,
    FlightTarget,
    GateTarget,
    KafkaTarget,
    LiveTarget,
    PostgresTarget,
    StreamFileTarget,
    StreamTarget,
    Target,
)

_MODULES = {
    "file": "fabric.io.sinks.files", "stream-file": "fabric.io.sinks.stream_files",
    "gate": "fabric.io.sinks.blackhole", "flight": "fabric.io.flight_server",
    "dataset": "fabric.io.dataset.sink", "view": "fabric.io.dataset.view_sink",
    "kafka": "fabric.io.kafka.sink", "postgres": "fabric.io.postgres.sink",
}  # fmt: skip
"""Who publishes and abandons what handles of a kind name."""
_TARGETED: tuple[str, ...] = ("kafka", "postgres")
"""Kinds whose handles are not enough to publish them: the target has credentials."""


def check_target(target: Target, schema: pa.Schema | None = None) -> None:
    """Refuse, before the job starts, a target that can't be written or can't hold such rows."""
    if isinstance(target, FileTarget):
        from fabric.io.sinks import files

        files.check_target(target, schema)
    elif isinstance(target, PostgresTarget) and schema is not None:
        from fabric.io.postgres import sink as postgres

        postgres.check_target(target, schema)


def open_sink(
    target: Target,
    schema: pa.Schema,
    task: TaskId,
    n_tasks: int,
    *,
    run: int = 0,
    folder: str = "",
) -> SinkWriter:
    """One task's writer of `target`; `run` counts the job's starts.

    What can't be put aside at the target lies in `folder`, which is the same for all hosts.

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
            from fabric.io.sinks.blackhole import GateSink

            return GateSink(target)
        case FlightTarget():
            from fabric.io.flight_server import FlightSink

            return FlightSink(target, schema, task, f"{task.job}.{task.stage}")
        case DatasetTarget():
            from fabric.io.dataset.sink import DatasetSink

            return DatasetSink(target, schema, task, f"{task.job}.{task.stage}", target.mode)
        case KafkaTarget():
            from fabric.io.kafka import sink

            return sink.open_sink(target, schema, task, run=run, folder=folder)
        case PostgresTarget():
            from fabric.io.postgres import sink as postgres

            return postgres.open_sink(target, schema, task, n_tasks)
        case _:
            raise PlanError(f"nothing here can write a {type(target).__name__}")


def publish(handles: Sequence[bytes], target: Target | None = None) -> None:
    """Make the prepared output of all tasks of one sink visible; may be repeated.

    Here and below `target` is given for a sink `WITH_CREDENTIALS`: its handles have none.
    """
    for kind, group in _grouped(unfolded(handles)).items():
        _module(kind).publish(group, *_needed(kind, target))


def take_back(
    handles: Sequence[bytes], kept: Sequence[bytes], target: Target | None = None
) -> None:
    """Have nobody see any more what a stream's sink published; may be repeated.

    What is among `kept` too stays: a handle names all portions that its task did not know to be
    complete, some of which were published with an earlier one.
    Rows sent to a Flight server without transactions stay: there they are seen at least once.

    Raises
    ------
    FabricError
        It is still seen; unless the error is `retryable`, it always will be.
    """
    for kind, group in _grouped(_without(handles, kept)).items():
        if kind not in ("stream-file", "dataset", "view", "flight", *_TARGETED):
            raise InternalError(f"a sink of kind {kind!r} is not one of a stream")
        _module(kind).take_back(group, *_needed(kind, target))


def abandon(handles: Sequence[bytes], target: Target | None = None) -> None:
    """Remove the prepared output of all tasks of one sink; may be repeated."""
    for kind, group in _grouped(unfolded(handles)).items():
        _module(kind).abandon(group, *_needed(kind, target))


def drop(
    handles: Sequence[bytes], kept: Sequence[bytes] = (), target: Target | None = None
) -> None:
    """Remove the prepared output of single attempts: others took over; may be repeated.

    What is among `kept` too stays, see `take_back`. Only files lie where somebody would find them:
    a dataset's commit lists the attempts it wants.
    """
    for kind, group in _grouped(_without(handles, kept)).items():
        if kind in ("file", "stream-file", *_TARGETED):
            _module(kind).drop(group, *_needed(kind, target))


def discard(
    target: Target | StreamTarget,
    job: str,
    stage: int,
    folder: str = "",
    *,
    published: bool = False,
) -> None:
    """Remove whatever the tasks of a stage wrote aside, prepared or not; may be repeated.

    `published`: the job has come to its end, and all it wrote is out.
    """
    if isinstance(target, FileTarget | StreamFileTarget) and not places.may_write(target.path):
        return  # then no task of it has begun here
    if isinstance(target, FileTarget):
        from fabric.io.sinks import files

        files.discard(target, job, stage)
    elif isinstance(target, StreamFileTarget):
        from fabric.io.sinks import stream_files

        stream_files.discard(target, job, stage)
    elif isinstance(target, DatasetTarget) and target.mode == "view":
        from fabric.io.dataset import view_sink

        view_sink.discard(target, job, published=published)
    elif isinstance(target, KafkaTarget):
        from fabric.io.kafka import sink

        sink.discard(target, job, stage, folder, published=published)
    elif isinstance(target, PostgresTarget):
        from fabric.io.postgres import sink as postgres

        postgres.discard(target, job, stage)


def _without(handles: Sequence[bytes], kept: Sequence[bytes]) -> list[Handle]:
    stays = {handle.encode() for handle in unfolded(kept)}
    return [handle for handle in unfolded(handles) if handle.encode() not in stays]


def _needed(kind: str, target: Target | None) -> tuple[Target | None, ...]:
    """What the module of `kind` is given beside handles; None: who asks does not know it."""
    return (target,) if kind in _TARGETED else ()


def _grouped(handles: Iterable[Handle]) -> dict[str, list[Handle]]:
    groups: dict[str, list[Handle]] = defaultdict(list)
    for handle in handles:
        groups[handle.kind].append(handle)
    return groups


def _module(kind: str) -> Any:
    if kind not in _MODULES:
        raise InternalError(f"no sink makes handles of kind {kind[:40]!r}")
    return import_module(_MODULES[kind])


def check_stream_target(target: StreamTarget, schema: pa.Schema) -> None:
    """Refuse, before the job starts, a target that a stream of such rows can't write, and a folder
    with another job's rows."""
    _check_possible(target, schema)
    if isinstance(target, StreamFileTarget):
        from fabric.io.local_files import writing
        from fabric.io.sinks import claims

        with writing(target.path):
            claims.check_unused(target)
            claims.check_alike(target, schema)


def _check_possible(target: StreamTarget, schema: pa.Schema) -> None:
    if isinstance(target, StreamFileTarget):
        from fabric.io.sinks import stream_files

        stream_files.check_target(target)
        stream_files.check_columns(target, schema)
    if isinstance(target, DatasetTarget) and target.mode == "overwrite":
        raise PlanError(
            f"a stream appends: dataset {target.name!r} can't be overwritten by one; drop it "
            'first, or use mode "append"'
        )


def open_stream_sink(
    target: StreamTarget,
    schema: pa.Schema,
    task: TaskId,
    n_tasks: int,
    *,
    run: int,
    folder: str = "",
    scratch: Path | None = None,
    state: StateBackend = "memory",
) -> SinkWriter:
    """One task's writer; `run` is the same for all tasks and greater after each restore.

    `folder` is that of the checkpoints, the same for all hosts. A view keeps its rows as the job
    keeps `state`, in files below `scratch`.

    Raises
    ------
    PlanError
        The target can't hold a column of `schema`.
    StorageError
        The place can't be written.
    """
    _check_possible(target, schema)
    opened: Callable[[str], SinkWriter]
    match target:
        case StreamFileTarget():
            from fabric.io.sinks import stream_files

            return Epochs(stream_files.portion_opener(target, schema, task, run))
        case DatasetTarget(mode="view"):
            from fabric.io.dataset import view_sink

            place = view_sink.Place(task, n_tasks, run)
            return view_sink.open_view(target, place, schema, scratch, state)
        case DatasetTarget():
            from fabric.io.dataset import sink as dataset

            dataset.make(target, schema, f"{task.job}.{task.stage}.made")
            opened = partial(dataset.DatasetSink, target, schema, task)
        case FlightTarget():
            from fabric.io.flight_server import FlightSink

            opened = partial(FlightSink, target, schema, task)
        case PostgresTarget():
            from fabric.io.postgres import sink as postgres

            return Epochs(postgres.portion_opener(target, schema, task, run))
        case BlackholeTarget():
            from fabric.io.sinks.blackhole import Blackhole

            return Blackhole()
        case LiveTarget():
            from fabric.io.live import feed_of
            from fabric.io.sinks.blackhole import Live

            return Live(feed_of(target))
        case KafkaTarget():
            from fabric.io.kafka import sink

            return sink.open_stream(target, schema, task, n_tasks, run=run, folder=folder)
        case _:
            raise PlanError(f"no stream can be written to a {type(target).__name__}")

    return Epochs(lambda since: opened(f"{task.job}.{task.stage}.{run}.{since}"))
