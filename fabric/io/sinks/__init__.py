"""Writing to the outside: aside first, published by the coordinator's word.

A task opens a writer, writes, and `prepare`s a durable handle; when all tasks have, one agent
`publish`es all handles, or `abandon`s them; those of an attempt that another one followed are
`drop`ped. What a stream published with a checkpoint that was damaged is taken back (`take_back`).
All of it may be repeated. What a stream wrote before a checkpoint is seen once that checkpoint is
complete: exactly once in files, datasets of a fabric, topics of Kafka and tables of PostgreSQL.

The module of a target has the name of the target on the wire (`WIRE` of its class), and is imported
when the first such target comes. It has what its sink can do, of these functions:

    check_target, check_stream     what can be refused before a job starts
    open_sink                      the `SinkWriter` of one task of a bounded job
    open_stream                    that of one task of a stream
    publish, abandon               what is done with the handles of all its tasks
    drop                           the same as `abandon` with those of single attempts
    take_back                      with handles of a stream that were published
    discard                        what is done at the end of a job, with handles or without

A handle names the module by its kind: that of a view is not that of other datasets, those of
objects are not those of other files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

from fabric.errors import InternalError, PlanError
from fabric.ids import TaskId
from fabric.io.sinks.protocol import Handle, SinkStart, SinkWriter, unfolded
from fabric.plan.targets import TARGETS, StreamTarget, Target

_MODULES = {"view", "object_file", "object_stream", *(target.WIRE for target in TARGETS)}
_NO_START = SinkStart()
_TARGETED = ("kafka", "postgres", "object_file", "object_stream")
"""Modules whose handles may not be enough to publish them: the target has credentials."""


def check_target(target: Target, schema: pa.Schema | None = None, goes_on: str = "") -> None:
    """Refuse, before the job starts, a target that can't be written or can't hold such rows.

    Here and below `goes_on` is the job of a stream that wrote there before, and does again.
    """
    if (check := _function(target, "check_target")) is not None:
        check(target, schema, goes_on=goes_on)


def check_stream_target(target: Target, schema: pa.Schema, goes_on: str = "") -> None:
    """Refuse, before the job starts, a target that a stream of such rows can't write, and a folder
    with another job's rows."""
    if (check := _function(target, "check_stream")) is not None:
        check(target, schema, goes_on=goes_on)


def open_sink(
    target: Target, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart = _NO_START
) -> SinkWriter:
    """One task's writer of `target`.

    Raises
    ------
    PlanError
        The target can't hold a column of `schema`, or exists and may not be overwritten.
    StorageError
        The place can't be written.
    """
    if (opened := _function(target, "open_sink")) is None:
        raise PlanError(f"nothing here can write a {type(target).__name__}")
    writer: SinkWriter = opened(target, schema, task, n_tasks, start)
    return writer


def open_stream_sink(
    target: StreamTarget, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
) -> SinkWriter:
    """One task's writer; `start.run` is the same for all tasks and greater after each restore.

    Raises
    ------
    PlanError
        The target can't hold a column of `schema`.
    StorageError
        The place can't be written.
    """
    if (opened := _function(target, "open_stream")) is None:
        raise PlanError(f"no stream can be written to a {type(target).__name__}")
    writer: SinkWriter = opened(target, schema, task, n_tasks, start)
    return writer


def publish(handles: Sequence[bytes], target: Target | None = None) -> None:
    """Make the prepared output of all tasks of one sink visible; may be repeated.

    Here and below `target` is given where it `has_credentials`: its handles have none.
    """
    _call("publish", unfolded(handles), target)


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
    _call("take_back", _without(handles, kept), target)


def abandon(handles: Sequence[bytes], target: Target | None = None) -> None:
    """Remove the prepared output of all tasks of one sink; may be repeated."""
    _call("abandon", unfolded(handles), target)


def drop(
    handles: Sequence[bytes], kept: Sequence[bytes] = (), target: Target | None = None
) -> None:
    """Remove the prepared output of single attempts: others took over; may be repeated.

    What is among `kept` too stays, see `take_back`. Only files lie where somebody would find them:
    a dataset's commit lists the attempts it wants.
    """
    _call("drop", _without(handles, kept), target)


def discard(
    target: Target, job: str, stage: int, folder: str = "", *, published: bool = False
) -> None:
    """Remove whatever the tasks of a stage wrote aside, prepared or not; may be repeated.

    `published`: the job has come to its end, and all it wrote is out.
    """
    if (discarding := _function(target, "discard")) is not None:
        discarding(target, job, stage, folder=folder, published=published)


def _function(target: Target, name: str) -> Any:
    """What the module of `target` has under a name; None: its sink can't do that."""
    return getattr(import_module(f"{__name__}.{target.WIRE}"), name, None)


def _without(handles: Sequence[bytes], kept: Sequence[bytes]) -> list[Handle]:
    stays = {handle.encode() for handle in unfolded(kept)}
    return [handle for handle in unfolded(handles) if handle.encode() not in stays]


def _call(name: str, handles: Iterable[Handle], target: Target | None) -> None:
    """Call the function of that name for the handles of each kind."""
    groups: dict[str, list[Handle]] = defaultdict(list)
    for handle in handles:
        groups[handle.kind].append(handle)
    for kind, group in groups.items():
        module = kind.replace("-", "_")
        if module not in _MODULES:
            raise InternalError(f"no sink makes handles of kind {kind[:40]!r}")
        function = getattr(import_module(f"{__name__}.{module}"), name, None)
        if function is not None:
            function(group, *((target,) if module in _TARGETED else ()))
        elif name == "take_back":
            raise InternalError(f"a sink of kind {kind!r} is not one of a stream")
