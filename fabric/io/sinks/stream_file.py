"""Files as sinks of streams: rolled, written aside, renamed when their checkpoint is complete.

    out/.name.<job>.stream/w/<key>.parquet    a task writes its own, made durable at a barrier
    out/.name.<job>.stream/small/...          published, kept back to be merged (`compaction.py`)
    out/name/<key>.parquet                    seen

One job: `Portion`, `publish`, `take_back`, `abandon`, `discard`. `<key>` is job, stage, task, run
and a number that only grows, so that nothing is ever written twice under one name; how far a task
is published is written down beside, and what lies before that was published, wherever it is now.

To take published files back, they are removed where they lie; of a file that they were merged into,
another one without their rows takes its place. What is to go is written down first, so that the
same may be asked again after a crash at any step; nothing is touched when something is missing.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from fabric import failpoints
from fabric.checkpoint.manifest import FINAL
from fabric.errors import (
    ConfigError,
    DataError,
    NotFoundError,
    PlanError,
    StorageError,
)
from fabric.ids import TaskId
from fabric.io import places
from fabric.io.local_files import writing
from fabric.io.sinks import claims, object_stream
from fabric.io.sinks.compaction import Merged, finish_merge, merge_small, ranges, size_of, without
from fabric.io.sinks.encoders import check_options, check_schema
from fabric.io.sinks.parts import PartSink, check_partition_by
from fabric.io.sinks.protocol import (
    Epochs,
    Handle,
    SinkStart,
    SinkWriter,
    grouped,
)
from fabric.io.sinks.stream_folders import (
    Folders,
    check_above,
    file_name,
    synced,
    task_name,
    write_whole,
)
from fabric.object_urls import is_object_url
from fabric.plan.targets import StreamFileTarget


def check_stream(target: StreamFileTarget, schema: pa.Schema, goes_on: str = "") -> None:
    """Refuse what such rows can't be written to, and a folder with another job's rows.

    `goes_on` is the job that has written there before, and does again.
    """
    _check_possible(target, schema)
    if is_object_url(target.path):
        object_stream.check_stream(target, schema, goes_on)
        return
    with writing(target.path):
        claims.check_unused(target, goes_on)
        claims.check_alike(target, schema)


def _check_possible(target: StreamFileTarget, schema: pa.Schema) -> None:
    """Refuse wrong options and sizes, a place that is no folder to write in, and columns that the
    format can't hold."""
    check_options(target.format, target.options)
    places.check_output(target.path)
    if not dict(target.options).get("lines", True):
        raise ConfigError("a stream writes JSON lines, whose files can be merged; leave out lines=")
    for name in ("roll_bytes", "roll_rows", "roll_s", "compact_bytes", "compact_s"):
        if getattr(target, name) < 0:
            raise ConfigError(f"{name} can't be negative, got {getattr(target, name)}")
    path = Path(target.path)
    if not is_object_url(target.path):
        check_above(path)
        if path.is_file():
            raise PlanError(f"{path} is a file, a stream writes a folder of files; name another")
    check_partition_by(target.partition_by, schema, "write_stream")
    check_schema(target.format, schema, target.path)


def open_stream(
    target: StreamFileTarget, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
) -> SinkWriter:
    """The writer of one task, once what its earlier runs left is gone.

    Nothing begins again before what a complete checkpoint has was published, so no other file of
    theirs is wanted. A task that comes late, after its job has ended, finds no folder to write in.
    """
    _check_possible(target, schema)
    if is_object_url(target.path):
        return object_stream.open_stream(target, schema, task, start)
    folders, numbers = Folders.of(target.path, task.job, task.stage), count(1)
    with writing(target.path):
        claims.claim(target, task.job)
        folders.make()
        for path in folders.working.rglob(f"{task_name(task)}-*"):
            if int(path.name.removeprefix(task_name(task)).split("-")[1]) < start.run:
                path.unlink(missing_ok=True)
    return Epochs(lambda since: Portion(target, schema, task, (start.run, next(numbers))))


class Portion(PartSink[Path]):
    """See `SinkWriter`: as many files as its rows need."""

    def __init__(
        self, target: StreamFileTarget, schema: pa.Schema, task: TaskId, place: tuple[int, int]
    ) -> None:
        super().__init__(target, schema, task, ended=synced)
        self._target, self._of_run = target, place
        self._folders = Folders.of(target.path, task.job, task.stage)

    def prepare(self, checkpoint: int = FINAL) -> bytes:
        """See `SinkWriter.prepare`."""
        with self._guard():
            self._parts.close()
            for folder in {path.parent for _, path in self._parts.paths}:
                synced(folder)
            synced(self._folders.working)
        target, working, (run, number) = self._target, self._folders.working, self._of_run
        facts = {
            "path": target.path, "job": self._task.job, "stage": self._task.stage,
            "task": self._task.task, "run": run, "number": number,
            "names": [str(path.relative_to(working)) for _, path in self._parts.paths],
            "format": target.format, "options": dict(target.options),
            "compact_bytes": target.compact_bytes, "compact_s": target.compact_s,
            "roll_bytes": target.roll_bytes,
        }  # fmt: skip
        return Handle("stream-file", facts).encode()

    def _place(self, folder: str, number: int) -> Path:
        name = file_name(self._task, self._of_run, number, self._target.format)
        path = self._folders.working / folder / name
        places.check_unmoved(path.parent)
        if folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            raise StorageError(f"{path} is there already: two tasks write under one name")
        return path


def publish(handles: Sequence[Handle]) -> None:
    """Make all files of these portions visible, small ones after merging; may be repeated."""
    for facts in grouped(handles, "path", "job", "stage"):
        first = facts[0]
        folders = Folders.of(first["path"], first["job"], first["stage"])
        if not folders.root.exists():  # the job has ended: this was told twice, and comes late
            continue
        with writing(first["path"]), folders.locked():
            for fact in sorted(facts, key=_order):
                _publish(fact, folders)
            merge_small(folders, first, time.time())


def abandon(handles: Sequence[Handle]) -> None:
    """Remove the files of these portions; what was published stays."""
    for handle in handles:
        facts = handle.facts
        folders = Folders.of(facts["path"], facts["job"], facts["stage"])
        for name in facts["names"]:
            (folders.working / name).unlink(missing_ok=True)


drop = abandon


def take_back(handles: Sequence[Handle]) -> None:
    """Have nobody see any more what these portions published; may be repeated.

    Of a job that had ended, and is restarted, only what was merged can't be told apart any more.

    Raises
    ------
    NotFoundError, DataError
        Files are not where they were put, or not what was written.
    """
    for facts in grouped(handles, "path", "job", "stage"):
        first = facts[0]
        folders = Folders.of(first["path"], first["job"], first["stage"])
        had_ended = not folders.root.exists()
        try:
            with writing(first["path"]):
                folders.make()
                with folders.locked():
                    take_back_files(folders, facts)
        except NotFoundError:
            if had_ended:
                shutil.rmtree(folders.root, ignore_errors=True)
            raise


def discard(target: StreamFileTarget, job: str, stage: int, **_: object) -> None:
    """At a job's end: what is published becomes visible, whatever its age, the rest is removed."""
    if not places.may_write(target.path):
        return  # then no task of it has begun here
    if is_object_url(target.path):
        object_stream.discard(target, job, stage)
        return
    folders = Folders.of(target.path, job, stage)
    if not folders.root.exists():
        claims.release(target, job)
        return
    facts = {
        "format": target.format, "options": dict(target.options),
        "compact_bytes": target.compact_bytes, "compact_s": 0.0, "roll_bytes": target.roll_bytes,
    }  # fmt: skip
    with writing(target.path):
        if folders.small.exists():
            with folders.locked():
                merge_small(folders, facts, time.time())
        shutil.rmtree(folders.root, ignore_errors=True)
        claims.release(target, job)


def _publish(facts: dict[str, Any], folders: Folders) -> None:
    """Move the files of one portion to where they are seen, or wait to be merged."""
    place = (facts["run"], facts["number"])
    if folders.published(facts["task"]) >= place:
        return
    for name in facts["names"]:
        staged, moved = folders.working / name, (folders.small / name, folders.target / name)
        if staged.exists():
            small = staged.stat().st_size < facts["compact_bytes"]
            seen = moved[0] if small else moved[1]
            places.check_unmoved(seen.parent)
            seen.parent.mkdir(parents=True, exist_ok=True)
            staged.rename(seen)
            synced(seen.parent)
        elif not any(path.exists() for path in moved):
            raise StorageError(
                f"the written rows of {facts['path']} are gone: there is no {staged}; was it "
                "removed by hand?"
            )
    synced(folders.small)
    synced(folders.target)
    failpoints.reach("stream.publishing")
    folders.set_published(facts["task"], place)


def _order(facts: dict[str, Any]) -> tuple[int, int, int]:
    return facts["task"], facts["run"], facts["number"]


_TOLD_MAX = 3


def take_back_files(folders: Folders, facts: list[dict[str, Any]]) -> None:
    """Remove all files that these portions published; the caller holds the lock.

    Raises
    ------
    NotFoundError
        Some are neither there nor in a file that is: they were moved or removed by somebody.
    DataError
        A file that they were merged into is not what was written.
    """
    finish_merge(folders, facts[0])
    names = {name for fact in facts for name in fact["names"]}
    record = folders.root / "taken-back.json"
    gone = set(json.loads(record.read_text())) if record.exists() else set()
    merged = Merged.all(folders)
    _check_there(folders, names - gone, merged)
    write_whole(record, json.dumps(sorted(gone | names)))
    for name in sorted(names):
        for folder in (folders.working, folders.small, folders.target):
            (folder / name).unlink(missing_ok=True)
    for each in merged:
        if not names.isdisjoint(each.names):
            _cut(folders, each, names, facts[0])
    for folder in (folders.small, folders.target):
        synced(folder)


def _check_there(folders: Folders, names: set[str], merged: list[Merged]) -> None:
    """Refuse unless each of `names` lies somewhere, by itself or in a merged file."""
    wanted = set(names)
    for each in merged:
        if not names.isdisjoint(each.names):
            wanted = (wanted - set(each.names)) | {each.name}
    places = (folders.working, folders.small, folders.target)
    lost = [name for name in sorted(wanted) if not any((at / name).exists() for at in places)]
    if lost:
        more = ", ..." if len(lost) > _TOLD_MAX else ""
        raise NotFoundError(
            f"{', '.join(lost[:_TOLD_MAX])}{more} can't be taken out of {folders.target}: not "
            "there any more; moved or removed by hand, or merged with others when the job ended? "
            "Somebody may have read the rows"
        )


def _cut(folders: Folders, merged: Merged, names: set[str], facts: dict[str, Any]) -> None:
    """Have the file there without the rows of these parts."""
    path, about = folders.target / merged.name, (facts["format"], facts["options"])
    dropped = {place for place, name in enumerate(merged.names) if name in names}
    if len(dropped) == len(merged.names):
        path.unlink(missing_ok=True)
        return
    found = size_of(path, *about)
    left = sum(size for place, size in enumerate(merged.sizes) if place not in dropped)
    if found == left:  # this was done before a crash
        return
    if found != sum(merged.sizes):
        raise DataError(
            f"{path} holds {found} rows or bytes, {sum(merged.sizes)} were written: somebody has "
            "changed it, and what was put out can't be taken out of it"
        )
    aside = folders.root / "cut"
    without(aside, path, ranges(merged.sizes, dropped), *about)
    synced(aside)
    aside.rename(path)
