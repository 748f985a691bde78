"""Files in object stores as sinks: written aside, then copied by the store to where they are seen.

    s3://b/out/.name.<job>-0.staging/00000.0-0000      each task attempt writes its own
    s3://b/out/.name.<job>-0.staging/begun             publish has begun, and what was there before
    s3://b/out/name/part-<job>.0-00000.parquet         seen
    s3://b/out/name/_SUCCESS                           all of them are

One job: `check_place`, `ObjectSink`, `publish` and `abandon`. A store can't rename, so the objects
of a folder are not seen in one step: each is whole, ``_SUCCESS`` comes last, and is away while
others take the place of what was there. Names of parts are of one job alone, so nothing is replaced
and what was there stays until all that is new is there. A single object is seen in one step.

A failure at any step leaves what was there and, after `abandon`, nothing else. Every step may be
repeated; what `begun` says was there before is all that an overwriting job removes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from fabric.checkpoint.manifest import FINAL
from fabric.errors import FabricError, NotFoundError, PlanError, StorageError
from fabric.ids import TaskId
from fabric.io import places
from fabric.io.object_files import Upload, copy_all, is_there, place_of
from fabric.io.sinks.append import check_appended
from fabric.io.sinks.overwrite import foreign_keys
from fabric.io.sinks.parts import PartSink, seen_names
from fabric.io.sinks.protocol import Handle, grouped, known_store, needed_store
from fabric.object_store import Bucket
from fabric.object_urls import split_url
from fabric.plan.targets import FileTarget, Target

_BEGUN, _SUCCESS = "begun", "_SUCCESS"
_SHOWN = 3


def check_place(target: FileTarget, schema: pa.Schema | None) -> None:
    """Refuse what can't be written there: a target that exists in mode "error", one that is an
    object and not a prefix or the other way round, more than data files, other columns."""
    bucket, key = place_of(target.path, target.store)
    if not key:
        raise PlanError(f"{target.path} is a bucket; name a prefix in it: '{target.path}/rows'")
    below = sorted(bucket.sizes(key))
    is_object = is_there(bucket, key)
    if target.single and below:
        raise PlanError(
            f"objects lie below {target.path}, so it is no file; give the name of one in it"
        )
    if not target.single and is_object:
        raise PlanError(f"{target.path} is an object, not a prefix of parts; remove it first")
    if target.mode == "error" and (below or is_object):
        append = "" if target.single else ' or "append"'
        raise PlanError(
            f'{target.path} exists already; write with mode="overwrite"{append}, or elsewhere'
        )
    if target.mode == "overwrite" and not target.force:
        others = list(foreign_keys(each.removeprefix(f"{key}/") for each in below))
        if others:
            listed = ", ".join(others[:_SHOWN]) + (", …" if len(others) > _SHOWN else "")
            raise PlanError(
                f"{target.path} holds more than data files: {listed}; overwriting would remove "
                "it: move it away, write elsewhere, or say force=True"
            )
    if target.mode == "append" and below and schema is not None:
        check_appended(target, schema)


class ObjectSink(PartSink[Upload]):
    """Writes the parts of one task; see `SinkWriter`."""

    def __init__(self, target: FileTarget, schema: pa.Schema, task: TaskId, packing: str) -> None:
        super().__init__(target, schema, task, packing)
        self._target, self._rows = target, 0
        self._staging = _aside(target.path, task.job, task.stage)
        self._empty: Upload | None = None
        with self._guard():
            if not target.partition_by:
                self._parts.begin()

    def write(self, batch: pa.RecordBatch) -> None:
        """See `SinkWriter.write`."""
        super().write(batch)
        self._rows += batch.num_rows

    def prepare(self, checkpoint: int = FINAL) -> bytes:
        """Have all objects there, aside."""
        with self._guard():
            self._parts.close()
            names = seen_names(self._parts.paths, self._target, self._task, ours=True)
            parts = [(upload.name, seen) for upload, seen in names]
            if not parts:  # so that it can be told later whether this was published
                self._empty = self._name_of("", 0)
                self._empty.close()
                parts.append((self._empty.name, ""))
        facts = {
            "path": self._target.path, "single": self._target.single, "mode": self._target.mode,
            "staging": self._staging, "begins": _begins(self._task.job, self._task.stage),
            "parts": parts, "rows": self._rows, "options": bool(self._target.store),
        }  # fmt: skip
        return Handle("object-file", facts).encode()

    def abandon(self) -> None:
        """Remove the parts."""
        super().abandon()
        if self._empty is not None:
            self._empty.abandon()

    def _place(self, folder: str, number: int) -> Upload:
        places.check_output(self._target.path)
        name = f"{self._task.task:05d}.{self._task.attempt}-{number:04d}"
        return Upload(f"{self._staging}/{name}", self._target.store)


def publish(handles: Sequence[Handle], target: Target | None = None) -> None:
    """Copy all parts of one target to where they are seen."""
    store = needed_store(handles, target)
    facts = [handle.facts for handle in handles]
    url, mode, is_single = facts[0]["path"], facts[0]["mode"], facts[0]["single"]
    places.check_output(url)
    bucket, key = place_of(url, store)
    _, staging = split_url(facts[0]["staging"])
    staged = _staged(facts)
    there = bucket.sizes(staging)
    if not there.keys() >= staged.keys():
        _check_published(bucket, url, {name for name in staged.values() if name})
        bucket.remove(there)
        return
    before = _begun(bucket, f"{staging}/{_BEGUN}")
    if before is None:
        before = [key] if is_single and is_there(bucket, key) else []
        before += bucket.sizes(key) if mode != "append" else []
        if before and mode == "error":
            raise PlanError(f"{url} was made by somebody else meanwhile; it is kept")
        bucket.put(f"{staging}/{_BEGUN}", json.dumps(before).encode())
    success = f"{key}/{_SUCCESS}"
    if success in before:
        bucket.remove([success])
    copies = {name: seen for name, seen in staged.items() if seen}
    try:
        copy_all(bucket, copies, there, store)
    except BaseException:
        with suppress(FabricError):  # else `abandon` does it
            _restore(bucket, key, before, copies.values())
        raise
    bucket.remove(set(before) - set(copies.values()) if mode == "overwrite" else ())
    if not is_single:
        bucket.put(success, b"")
    _clear(bucket, staging)


def abandon(handles: Sequence[Handle], target: Target | None = None) -> None:
    """Remove whatever the stage of these handles staged; what is published stays."""
    if (store := known_store(handles, target)) is None:
        return  # `discard` does it
    for facts in grouped(handles, "path", "staging"):
        places.check_output(facts[0]["path"])
        at = place_of(facts[0]["path"], store)
        _undo(at, facts[0]["staging"], facts[0]["begins"])


def drop(handles: Sequence[Handle], target: Target | None = None) -> None:
    """Remove what these attempts staged, and nothing of any other."""
    if (store := known_store(handles, target)) is None:
        return  # as above
    for handle in handles:
        places.check_output(handle.facts["path"])
        place_of(handle.facts["path"], store)[0].remove(_staged([handle.facts]))


def discard(target: FileTarget, job: str, stage: int) -> None:
    """Remove whatever the tasks of a stage staged, listed in handles or not."""
    at = place_of(target.path, target.store)
    _undo(at, _aside(target.path, job, stage), _begins(job, stage))


def _undo(at: tuple[Bucket, str], staging_url: str, begins: str) -> None:
    """Remove what lies aside, and what a publish that was cut short has copied.

    Where that one had begun to remove what was there before, what is new stays.
    """
    (bucket, key), (_, staging) = at, split_url(staging_url)
    before = _begun(bucket, f"{staging}/{_BEGUN}")
    if before is not None and key not in before:
        now = bucket.sizes(key)
        if now.keys() >= set(before) - {f"{key}/{_SUCCESS}"}:
            ours = [each for each in now if each.rpartition("/")[2].startswith(begins)]
            _restore(bucket, key, before, [*ours, key])  # the key of a single object
    _clear(bucket, staging)


def _restore(bucket: Bucket, key: str, before: Sequence[str], new: Iterable[str]) -> None:
    """Have nothing of what is new seen, while all that was there before is."""
    success = f"{key}/{_SUCCESS}"
    bucket.remove({*new, success} - set(before))
    if success in before:
        bucket.put(success, b"")


def _begins(job: str, stage: int) -> str:
    """What the names of a job's parts begin with."""
    return f"part-{job}.{stage}-"


def _clear(bucket: Bucket, staging: str) -> None:
    """Remove all that lies aside, and last what says that publishing had begun."""
    begun = f"{staging}/{_BEGUN}"
    bucket.remove(each for each in bucket.sizes(staging) if each != begun)
    bucket.remove([begun])


def _staged(facts: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The key of each part aside, and by which it is seen; "" for what says that there is none."""
    found = {}
    for fact in facts:
        _, staging = split_url(fact["staging"])
        _, key = split_url(fact["path"])
        for name, part in fact["parts"]:
            seen = key if fact["single"] else f"{key}/{part}"
            found[f"{staging}/{name}"] = seen if part else ""
    return found


def _begun(bucket: Bucket, key: str) -> list[str] | None:
    """What was there when publishing began; None: it has not."""
    try:
        found: list[str] = json.loads(bucket.read(key)[0])
    except NotFoundError:
        return None
    return found


def _check_published(bucket: Bucket, url: str, seen: set[str]) -> None:
    """Refuse unless an earlier publish has all of them seen."""
    for key in sorted(seen):
        if not is_there(bucket, key):
            raise StorageError(
                f"the written rows of {url} are gone: neither there nor aside is an object for "
                f"{key}; was it removed by hand?"
            )


def _aside(url: str, job: str, stage: int) -> str:
    """Beside the target; readers pass over names that begin with a dot."""
    above, _, name = url.rpartition("/")
    return f"{above}/.{name}.{job}-{stage}.staging"
