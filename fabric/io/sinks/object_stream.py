"""Files in object stores as sinks of streams: copied to where they are seen by checkpoint.

    s3://b/out/.name.writer                       whose `name` is, while it runs: a job's id
    s3://b/out/.name.<job>-3.stream/work/<key>    a task writes its own, there at a barrier
    s3://b/out/.name.<job>-3.stream/published-0   how far task 0 is published
    s3://b/out/name/<key>.parquet                 seen

One job: what `stream_file` does for folders. `<key>` is the same as there, and no two objects ever
have the same. Nothing is merged. To publish is to copy, to write down how far, and to remove what
lies aside; whatever breaks off is done again. One process does so at a time: it has the object
`lock`, which is another's once it is old. To take back, what lies aside goes first, so that who
is late finds nothing to copy.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pyarrow as pa

from fabric import failpoints
from fabric.checkpoint.manifest import FINAL
from fabric.errors import (
    FabricError,
    NotFoundError,
    PlanError,
    StorageAwayError,
    StorageError,
)
from fabric.ids import TaskId
from fabric.io import places
from fabric.io.files.folders import is_hidden
from fabric.io.object_files import Upload, copy_all, is_there, place_of
from fabric.io.sinks.append import check_appended
from fabric.io.sinks.claims import ASIDE, OURS, WAYS
from fabric.io.sinks.encoders import ENDINGS
from fabric.io.sinks.parts import PartSink
from fabric.io.sinks.protocol import (
    Epochs,
    Handle,
    SinkStart,
    SinkWriter,
    grouped,
    known_store,
    needed_store,
)
from fabric.io.sinks.stream_folders import file_name, task_name
from fabric.object_store import Bucket
from fabric.plan.places import Settings
from fabric.plan.targets import StreamFileTarget, Target

LOCK_S, HELD_S = 10.0, 60.0
"""How long one process waits for another, and when a lock belongs to nobody any more."""
_TRY_S = 0.1
_TOLD_MAX = 3


@dataclass(frozen=True, slots=True)
class Keys:
    """The places of one sink of one job: `root` is hidden, beside `target`."""

    bucket: Bucket
    target: str
    root: str
    store: Settings = field(default=(), repr=False)

    @staticmethod
    def of(url: str, job: str, stage: int, store: Settings = ()) -> Keys:
        """Raises `PlanError` where plans may not write."""
        places.check_output(url)
        bucket, key = place_of(url, store)
        return Keys(bucket, key, f"{_beside(key)}.{job}-{stage}.stream", store)

    @property
    def working(self) -> str:
        """What tasks wrote, published by nobody yet."""
        return f"{self.root}/work"

    @property
    def alive(self) -> str:
        """There until the job ends: who publishes later is told twice."""
        return f"{self.root}/job"

    def published(self, task: int) -> tuple[int, int]:
        """The run and number of the last portion of `task` that was published."""
        found = _read(self.bucket, f"{self.root}/published-{task}")
        return (-1, -1) if found is None else (int(found[0]), int(found[1]))

    def set_published(self, task: int, place: tuple[int, int]) -> None:
        """Write that down."""
        self.bucket.put(f"{self.root}/published-{task}", json.dumps(place).encode())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else publishes meanwhile; `StorageAwayError` when somebody does for too long."""
        key, own, begun_s = f"{self.root}/lock", secrets.token_bytes(8), time.monotonic()
        while not self._takes(key, own):
            if time.monotonic() - begun_s > LOCK_S:
                raise StorageAwayError(
                    f"another process has been publishing to {self.bucket.url}/{self.target} for "
                    f"{LOCK_S:.0f} s; it is tried again until that one has ended, or {HELD_S:.0f} "
                    "s after it was killed"
                )
            time.sleep(_TRY_S)
        begun_s = time.monotonic()
        try:
            yield
        finally:
            if time.monotonic() - begun_s < HELD_S:
                with suppress(FabricError):  # then it gets old
                    self.bucket.remove([key])

    def _takes(self, key: str, own: bytes) -> bool:
        """Whether the lock is one's own now."""
        if self.bucket.create(key, own) is not None:
            return True
        try:
            found, tag = self.bucket.read(key)
            age_s = (datetime.now(UTC) - self.bucket.facts(key).written_at).total_seconds()
        except NotFoundError:
            return False
        if found == own:  # the answer was lost
            return True
        return age_s > HELD_S and self.bucket.replace(key, own, tag) is not None


def check_stream(target: StreamFileTarget, schema: pa.Schema, goes_on: str = "") -> None:
    """Refuse a bucket, an object, and a prefix with another job's rows; see `stream_file`."""
    bucket, key = place_of(target.path, target.store)
    if not key:
        raise PlanError(f"{target.path} is a bucket; name a prefix in it: '{target.path}/rows'")
    if is_there(bucket, key):
        raise PlanError(f"{target.path} is an object; a stream writes below a prefix: name another")
    if target.mode != "append":
        _check_unused(target, goes_on)
        return
    ending = f".{ENDINGS[target.format]}"
    for name in _seen(bucket, key):
        if OURS.fullmatch(name.rpartition("/")[2]) and not name.endswith(ending):
            raise PlanError(
                f"{target.path} holds {name}, and this stream would add {target.format} files to "
                "it; write elsewhere, or give the same format="
            )
    check_appended(target, schema)


def open_stream(
    target: StreamFileTarget, schema: pa.Schema, task: TaskId, start: SinkStart
) -> SinkWriter:
    """The writer of one task, once what its earlier runs left is gone; see `stream_file`.

    Raises `StorageError` where the store ignores conditional writes: claims and locks are such.
    """
    keys = Keys.of(target.path, task.job, task.stage, target.store)
    numbers = count(1)
    _claim(target, task.job)
    keys.bucket.check_conditions(f"{keys.root}/conditions")
    keys.bucket.put(keys.alive, b"")
    begins = f"{task_name(task)}-"
    keys.bucket.remove(
        key
        for key in keys.bucket.sizes(keys.working)
        if (name := key.rpartition("/")[2]).startswith(begins)
        and int(name.removeprefix(begins).split("-")[0]) < start.run
    )
    return Epochs(lambda since: Portion(target, schema, task, (start.run, next(numbers))))


class Portion(PartSink[Upload]):
    """See `SinkWriter`: as many objects as its rows need."""

    def __init__(
        self, target: StreamFileTarget, schema: pa.Schema, task: TaskId, place: tuple[int, int]
    ) -> None:
        super().__init__(target, schema, task)
        self._target, self._of_run = target, place
        self._keys = Keys.of(target.path, task.job, task.stage, target.store)
        self._names: list[str] = []

    def prepare(self, checkpoint: int = FINAL) -> bytes:
        """See `SinkWriter.prepare`."""
        with self._guard():
            self._parts.close()
        run, number = self._of_run
        facts = {
            "path": self._target.path, "job": self._task.job, "stage": self._task.stage,
            "task": self._task.task, "run": run, "number": number, "names": self._names,
            "options": bool(self._target.store),
        }  # fmt: skip
        return Handle("object-stream", facts).encode()

    def _place(self, folder: str, number: int) -> Upload:
        own = file_name(self._task, self._of_run, number, self._target.format)
        name = f"{folder}/{own}".lstrip("/")
        self._names.append(name)
        return Upload(f"{self._keys.bucket.url}/{self._keys.working}/{name}", self._keys.store)


def publish(handles: Sequence[Handle], target: Target | None = None) -> None:
    """Make all objects of these portions visible; may be repeated."""
    store = needed_store(handles, target)
    for facts in grouped(handles, "path", "job", "stage"):
        keys = Keys.of(facts[0]["path"], facts[0]["job"], facts[0]["stage"], store)
        if not is_there(keys.bucket, keys.alive):  # the job has ended
            continue
        with keys.locked():
            there = keys.bucket.sizes(keys.working)
            for fact in sorted(facts, key=lambda fact: (fact["task"], fact["run"], fact["number"])):
                _publish(fact, keys, there)


def _publish(facts: dict[str, Any], keys: Keys, there: dict[str, int]) -> None:
    bucket, place = keys.bucket, (facts["run"], facts["number"])
    copies = {f"{keys.working}/{name}": f"{keys.target}/{name}" for name in facts["names"]}
    if keys.published(facts["task"]) < place:
        for staged, seen in copies.items():
            if staged not in there and not is_there(bucket, seen):
                raise StorageError(
                    f"the written rows of {facts['path']} are gone: there is no {staged}; was it "
                    "removed by hand?"
                )
        waiting = {key: seen for key, seen in copies.items() if key in there}
        copy_all(bucket, waiting, there, keys.store)
        failpoints.reach("stream.publishing")
        keys.set_published(facts["task"], place)
    bucket.remove(key for key in copies if key in there)


def abandon(handles: Sequence[Handle], target: Target | None = None) -> None:
    """Remove the objects of these portions; what was published stays."""
    if (store := known_store(handles, target)) is None:
        return  # `discard` does it
    for handle in handles:
        facts = handle.facts
        keys = Keys.of(facts["path"], facts["job"], facts["stage"], store)
        keys.bucket.remove(f"{keys.working}/{name}" for name in facts["names"])


drop = abandon


def take_back(handles: Sequence[Handle], target: Target | None = None) -> None:
    """Have nobody see any more what these portions published; may be repeated.

    Raises
    ------
    NotFoundError
        Objects are not where they were put: somebody moved or removed them.
    """
    store = needed_store(handles, target)
    for facts in grouped(handles, "path", "job", "stage"):
        keys = Keys.of(facts[0]["path"], facts[0]["job"], facts[0]["stage"], store)
        with keys.locked():
            _take_back(keys, sorted({name for fact in facts for name in fact["names"]}))
        if not is_there(keys.bucket, keys.alive):  # of a job that had ended
            keys.bucket.remove(keys.bucket.sizes(keys.root))


def _take_back(keys: Keys, names: list[str]) -> None:
    bucket, record = keys.bucket, f"{keys.root}/taken-back"
    gone = set(_read(bucket, record) or ())
    there = bucket.sizes(keys.working)
    lost = [
        name
        for name in names
        if name not in gone
        and f"{keys.working}/{name}" not in there
        and not is_there(bucket, f"{keys.target}/{name}")
    ]
    if lost:
        more = ", ..." if len(lost) > _TOLD_MAX else ""
        raise NotFoundError(
            f"{', '.join(lost[:_TOLD_MAX])}{more} can't be taken out of "
            f"{bucket.url}/{keys.target}: not there any more; moved or removed by hand? Somebody "
            "may have read the rows"
        )
    bucket.put(record, json.dumps(sorted(gone.union(names))).encode())
    for folder in (keys.working, keys.target):
        bucket.remove(f"{folder}/{name}" for name in names)


def discard(target: StreamFileTarget, job: str, stage: int) -> None:
    """At a job's end: what is not published is removed."""
    keys = Keys.of(target.path, job, stage, target.store)
    bucket = keys.bucket
    if left := bucket.sizes(keys.root):
        with keys.locked():
            bucket.remove(key for key in left if key != keys.alive)
            bucket.remove([keys.alive])
    writer = f"{_beside(keys.target)}.writer"
    if _claimed_by(bucket, writer) == job:
        bucket.remove([writer])


def _beside(key: str) -> str:
    """What the hidden keys beside a prefix begin with."""
    above, slash, name = key.rpartition("/")
    return f"{above}{slash}.{name}"


def _claim(target: StreamFileTarget, job: str) -> None:
    """Have the prefix belong to `job` until `discard`; again is fine."""
    if target.mode == "append":
        return
    bucket, key = place_of(target.path, target.store)
    writer = f"{_beside(key)}.writer"
    if bucket.create(writer, job.encode()) is None:
        if (other := _claimed_by(bucket, writer)) != job:
            raise _taken(target.path, other or "", "is written")
        return
    try:
        _check_unused(target, job)
    except PlanError:
        bucket.remove([writer])
        raise


def _check_unused(target: StreamFileTarget, job: str) -> None:
    """Refuse a prefix that holds objects, or that is written, unless by `job`."""
    bucket, key = place_of(target.path, target.store)
    seen = _seen(bucket, key)
    names = [OURS.fullmatch(name.rpartition("/")[2]) for name in seen]
    wrote = [found["job"] if found else "" for found in names]
    if job and job in wrote:  # restarted once it had ended; others appended meanwhile
        return
    begins = f"{_beside(key).rpartition('/')[2]}."
    beside, _ = bucket.names(key.rpartition("/")[0])
    asides = [ASIDE.fullmatch(each.removeprefix(begins)) for each in beside if each[:1] == "."]
    writers = [found["job"] for found in asides if found]
    if (claimed_by := _claimed_by(bucket, f"{_beside(key)}.writer")) is not None:
        writers.insert(0, claimed_by)
    for writer in writers:
        if writer != job:
            raise _taken(target.path, writer, "is written")
    if seen:
        raise _taken(target.path, wrote[0], f"holds {seen[0]}" + (", written" if wrote[0] else ""))


def _seen(bucket: Bucket, key: str) -> list[str]:
    """What readers see below a prefix."""
    names = (each.removeprefix(f"{key}/") for each in bucket.sizes(key))
    return sorted(name for name in names if not any(map(is_hidden, name.split("/"))))


def _claimed_by(bucket: Bucket, writer: str) -> str | None:
    try:
        return bucket.read(writer)[0].decode()
    except NotFoundError:
        return None


def _read(bucket: Bucket, key: str) -> list[Any] | None:
    try:
        found: list[Any] = json.loads(bucket.read(key)[0])
    except NotFoundError:
        return None
    return found


def _taken(url: str, writer: str, how: str) -> PlanError:
    by = f" by job {writer}" if writer else ""
    return PlanError(f"{url} {how}{by}; {WAYS}. A stream with a name= goes on where it was stopped")
