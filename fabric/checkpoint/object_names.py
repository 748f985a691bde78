"""Names of streams in a checkpoint folder that is a URL: see `names.py`.

    .names/clicks.json    the record, replaced only by who has read the newest one
          /clicks.lease   who runs the stream; written anew every `RENEW_S` seconds

One job: `ObjectName`, and `named_streams` and `drop_stream` over a bucket. A store has no locks
that the system drops. So a process that holds a name writes its lease again and again, and who
finds a lease that is not written for `LEASE_S` takes it over. Only the clock of who waits counts. A
lease of a process of this host that has ended is taken over at once. A process that was taken for
dead finds its lease taken, and neither its record nor its checkpoints can be written any more.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from fabric.checkpoint.folder import NAMES, plain
from fabric.checkpoint.names import NamedStream, NameRecord, check_stream_name, parse_record
from fabric.checkpoint.object_storage import ObjectStorage
from fabric.errors import ConfigError, DataError, FabricError, FencedError, NotFoundError
from fabric.object_store import Bucket

RENEW_S, LEASE_S = 5.0, 20.0
_SHOWN_S = 60.0
"""A lease that is older than this is not shown as one of a process that runs."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who runs a stream; an empty token: nobody. `space`: where the process has that number."""

    token: str = ""
    process: int = 0
    host: str = ""
    space: str = ""
    beat: int = 0

    @property
    def holder(self) -> str:
        """As people are told."""
        return f"process {self.process} on {self.host}"

    @property
    def is_over(self) -> bool:
        """Whether it was given back, or its process is one of this host that has ended."""
        if not self.token:
            return True
        if self.space != _space():
            return False
        return not Path(f"/proc/{self.process}").exists()

    def encode(self) -> bytes:
        """As it is stored."""
        return json.dumps(asdict(self), sort_keys=True).encode()


class ObjectName:
    """A name that this process may run a stream under, until `close`.

    With `take_over` a lease of somebody else is taken at once: who calls knows that he leads.
    """

    def __init__(
        self, bucket: Bucket, name: str, *, take_over: bool = False,
        sleep: Callable[[float], object] | None = None,
    ) -> None:  # fmt: skip
        self.name = check_stream_name(name)
        stem = f"{NAMES}/{plain(name)}"
        bucket.check_conditions()
        self._bucket, self._path, self._lease_key = bucket, f"{stem}.json", f"{stem}.lease"
        self._ended = threading.Event()
        self._lease = Lease(secrets.token_hex(8), os.getpid(), socket.gethostname(), _space())
        self._lease_tag = self._take(take_over, sleep or self._ended.wait)
        self._tag, self.record = "", None
        self._renewing = threading.Thread(
            target=self._renew, name=f"lease of {name[:40]}", daemon=True
        )
        try:
            self.record, self._tag = _read(bucket, self._path, name)
        except BaseException:
            self._give_back()
            raise
        self._renewing.start()

    def write(self, record: NameRecord) -> None:
        """Have this record there, durable, in place of the one that was read."""
        data = record.encode()
        if self._tag:
            tag = self._bucket.replace(self._path, data, self._tag)
        else:
            tag = self._bucket.create(self._path, data)
        if tag is None:
            there, tag = _read(self._bucket, self._path, self.name)
            if there != record:  # else the answer to the first try was lost
                raise FencedError(
                    f"the stream {self.name!r} was started by somebody else meanwhile; this start "
                    "writes no more"
                )
        self._tag, self.record = tag, record

    def drop(self) -> None:
        """Forget the name; the checkpoints stay."""
        self._bucket.remove([self._path])
        self._tag, self.record = "", None

    def is_held(self) -> bool:
        """Whether nobody else has taken it over, by what the store says now."""
        return _read_lease(self._bucket, self._lease_key)[0].token == self._lease.token

    def close(self) -> None:
        """Let others have the name; may be called again."""
        if not self._ended.is_set():
            self._ended.set()
            self._renewing.join()
            self._give_back()

    # ---- inside

    def _take(self, take_over: bool, sleep: Callable[[float], object]) -> str:
        """Write the lease; its tag."""
        data = self._lease.encode()
        if (tag := self._bucket.create(self._lease_key, data)) is not None:
            return tag
        there, seen = _read_lease(self._bucket, self._lease_key)
        if there.token == self._lease.token:  # the answer to the first try was lost
            return seen
        if not (there.is_over or take_over):
            for _ in range(round(LEASE_S / RENEW_S)):
                sleep(RENEW_S)
                there, now = _read_lease(self._bucket, self._lease_key)
                if there.is_over:
                    seen = now
                    break
                if now != seen:
                    raise self._runs(there)
        taken = self._bucket.replace(self._lease_key, data, seen) if seen else None
        if taken is None:
            there, seen = _read_lease(self._bucket, self._lease_key)
            if there.token != self._lease.token:
                raise self._runs(there)
        return taken or seen

    def _runs(self, there: Lease) -> ConfigError:
        return ConfigError(
            f"a stream {self.name!r} is running already, in {there.holder}: two programs would "
            "share one state. Stop that one first, or give this one another name="
        )

    def _renew(self) -> None:
        beat = 0
        while not self._ended.wait(RENEW_S):
            beat += 1
            with suppress(FabricError):  # the store may answer again before the lease is over
                if not self._write_lease(beat):
                    return

    def _write_lease(self, beat: int) -> bool:
        lease = self._lease
        data = Lease(lease.token, lease.process, lease.host, lease.space, beat).encode()
        tag = self._bucket.replace(self._lease_key, data, self._lease_tag)
        if tag is None:
            there, tag = _read_lease(self._bucket, self._lease_key)
            if there.token != lease.token:
                return False  # it was taken over: nothing can be written here any more
        self._lease_tag = tag
        return True

    def _give_back(self) -> None:
        with suppress(FabricError):  # then it ends by itself
            self._bucket.replace(self._lease_key, Lease().encode(), self._lease_tag)


def read_record(bucket: Bucket, name: str) -> NameRecord | None:
    """What is known of a name, whoever runs its stream; None: nothing."""
    return _read(bucket, f"{NAMES}/{plain(check_stream_name(name))}.json", name)[0]


def named_streams(bucket: Bucket) -> list[NamedStream]:
    """Every stream that has a name in a bucket, by name."""
    stems = [name[: -len(".json")] for name in bucket.names(NAMES)[1] if name.endswith(".json")]
    return sorted((_named(bucket, stem) for stem in stems), key=lambda one: one.name)


def drop_stream(bucket: Bucket, name: str) -> NamedStream:
    """Forget a name, with all checkpoints of its stream; see `names.drop_stream`."""
    if read_record(bucket, name) is None:
        names = ", ".join(repr(one.name) for one in named_streams(bucket)) or "none"
        raise NotFoundError(f"there is no stream {name!r} in {bucket.url}; there are: {names}")
    found = _named(bucket, plain(name))
    held = ObjectName(bucket, name)
    try:
        if held.record is not None:
            ObjectStorage(bucket).remove_job(held.record.state)  # first: or nobody could find it
        held.drop()
    finally:
        held.close()
    return found


def _named(bucket: Bucket, stem: str) -> NamedStream:
    try:
        record, _ = _read(bucket, f"{NAMES}/{stem}.json", "")
    except FabricError as error:
        return NamedStream(stem, error=error.message)
    if record is None:  # it was dropped meanwhile
        return NamedStream(stem)
    if plain(record.name) != stem:
        return NamedStream(stem, error=f"it is the stream {record.name!r}: it was moved")
    newest, why, storage = None, "", ObjectStorage(bucket)
    try:
        if numbers := storage.checkpoints(record.state):
            newest = storage.load(record.state, numbers[-1])
    except FabricError as error:
        why = error.message
    return NamedStream(record.name, record, newest, _runs_in(bucket, f"{NAMES}/{stem}.lease"), why)


def _runs_in(bucket: Bucket, key: str) -> str:
    """The process that has a lease; "" when that is over, or seems to be."""
    try:
        lease, _ = _read_lease(bucket, key)
        age_s = (datetime.now(UTC) - bucket.facts(key).written_at).total_seconds()
    except NotFoundError:
        return ""
    return "" if lease.is_over or age_s > _SHOWN_S else lease.holder


def _read(bucket: Bucket, key: str, name: str) -> tuple[NameRecord | None, str]:
    try:
        data, tag = bucket.read(key)
    except NotFoundError:
        return None, ""
    record = parse_record(data, key)
    if name and record.name != name:  # two names that a digest can't tell apart
        raise DataError(f"{key} is of the stream {record.name!r}, not of {name!r}")
    return record, tag


def _read_lease(bucket: Bucket, key: str) -> tuple[Lease, str]:
    try:
        data, tag = bucket.read(key)
    except NotFoundError:
        return Lease(), ""
    try:
        return Lease(**json.loads(data)), tag
    except (ValueError, TypeError) as error:
        raise DataError(f"{key} is damaged: {error}; remove it") from error


def _space() -> str:
    """Where the number of a process means one process: this boot, and its process namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return secrets.token_hex(8)
