"""Sinks of streams: what was written before a checkpoint is seen once that checkpoint is complete.

One job: `open_stream_sink` and the checks before a job starts. Handles are published and abandoned
by `fabric.io.sinks`, like those of bounded jobs. Exactly once into files, datasets of a fabric and
tables of PostgreSQL; any other Flight server has no transactions, gets rows as they come, and after
a restore gets those since the last checkpoint again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

from fabric.config import StateBackend
from fabric.errors import PlanError
from fabric.ids import TaskId
from fabric.io.faults import writing
from fabric.io.live import feed_of
from fabric.io.sinks.protocol import SinkWriter
from fabric.io.streams.sinks import claims, files
from fabric.io.streams.sinks.blackhole import Blackhole
from fabric.io.streams.sinks.epochs import Epochs, StreamWriter
from fabric.io.streams.sinks.live import Live
from fabric.plan.sources import (
    BlackholeTarget,
    DatasetTarget,
    FlightTarget,
    KafkaTarget,
    LiveTarget,
    PostgresTarget,
    StreamFileTarget,
    StreamTarget,
)

__all__ = ["StreamWriter", "check_stream_target", "open_stream_sink"]


def check_stream_target(target: StreamTarget, schema: pa.Schema) -> None:
    """Refuse, before the job starts, a target that a stream of such rows can't write, and a folder
    with another job's rows."""
    _check_possible(target, schema)
    if isinstance(target, StreamFileTarget):
        with writing(target.path):
            claims.check_unused(target)
            claims.check_alike(target, schema)


def _check_possible(target: StreamTarget, schema: pa.Schema) -> None:
    if isinstance(target, StreamFileTarget):
        files.check_target(target)
        files.check_columns(target, schema)
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
) -> StreamWriter:
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
            return Epochs(files.portion_opener(target, schema, task, run))
        case DatasetTarget(mode="view"):
            from fabric.io.dataset import view_sink
            from fabric.io.dataset.views import Place

            place = Place(task, n_tasks, run)
            return view_sink.open_view(target, place, schema, scratch, state)
        case DatasetTarget():
            from fabric.io import dataset

            dataset.make(target, schema, f"{task.job}.{task.stage}.made")
            opened = partial(dataset.open_epoch, target, schema, task)
        case FlightTarget():
            from fabric.io import flight

            opened = partial(flight.open_epoch, target, schema, task)
        case PostgresTarget():
            from fabric.io.postgres import sink as postgres

            return Epochs(postgres.portion_opener(target, schema, task, run))
        case BlackholeTarget():
            return Blackhole()
        case LiveTarget():
            return Live(feed_of(target))
        case KafkaTarget():
            from fabric.io.kafka import sink

            return sink.open_stream(target, schema, task, n_tasks, run=run, folder=folder)
        case _:
            raise PlanError(f"no stream can be written to a {type(target).__name__}")

    return Epochs(lambda since: opened(f"{task.job}.{task.stage}.{run}.{since}"))
