"""Which job the state of a named stream belongs to, and who runs that stream now.

    <root>/.names/clicks.json    the job that "clicks" was first, and how often it was started
                 /clicks.lock    locked by the process that runs it, as long as that lives

One job: `HeldName`, and `named_streams` and `drop_stream`, for people who look after a checkpoint
folder. Each start of a program is a job of its own; checkpoints and output of all lie under the id
of the first one, which a program that is run again finds by the name. The number of starts makes
whatever a sink writes aside unique: a program that was killed can't say how far it came. The
operating system drops the lock of a process that ends, however it ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fabric.checkpoint.files import Files, reading, writing
from fabric.checkpoint.folder import NAMES, plain
from fabric.checkpoint.manifest import Manifest, check_label
from fabric.checkpoint.storage import FolderStorage
from fabric.errors import ConfigError, DataError, FabricError, NotFoundError

VERSION = 1
LOOK_S = 0.05
"""Somebody who only looks whether a name is held has it for a moment himself."""


@dataclass(frozen=True, slots=True)
class NameRecord:
    """The state of the stream `name` is that of the job `state`, which was started `starts` times.

    `ended`: its sources came to their end, so all of its windows are closed. `sinks`: where the
    sinks are now whose output may be owed since before a start that changed the program, by the
    paths that they had then. `upgrade`: the ``renames`` and ``drop`` that the newest start was
    given and has carried out, as text; "" when it was given none.
    """

    name: str
    state: str
    starts: int = 0
    ended: bool = False
    sinks: Mapping[str, str] = field(default_factory=dict)
    upgrade: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.sinks, dict) or not all(
            isinstance(path, str) for pair in self.sinks.items() for path in pair
        ):
            raise TypeError("sinks must be paths by paths")
        if not isinstance(self.name, str) or not isinstance(self.state, str) or not self.state:
            raise TypeError("name and state must be texts")
        if not isinstance(self.upgrade, str):
            raise TypeError("upgrade must be a text")
        if type(self.starts) is not int or self.starts < 0 or type(self.ended) is not bool:
            raise TypeError("starts must be a count, ended true or false")

    def encode(self) -> bytes:
        """As it is stored."""
        return json.dumps({"version": VERSION, **asdict(self)}, sort_keys=True).encode()


class HeldName:
    """A name that this process may run a stream under, until `close`."""

    def __init__(self, root: Path, name: str, files: Files | None = None) -> None:
        self._root, self._files = root, files or Files()
        self.name = check_stream_name(name)
        stem = plain(name)
        self._path = root / NAMES / f"{stem}.json"
        self._lock_path = root / NAMES / f"{stem}.lock"
        with writing(root, self._lock_path):
            for folder in (root, root / NAMES):
                self._files.make_folder(folder)
            self._lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._take()
            self.record = read_record(root, name, self._files)
        except BaseException:
            self.close()
            raise

    def write(self, record: NameRecord) -> None:
        """Have this record there, durable, in place of the one before."""
        aside = self._path.with_suffix(".new")
        data = record.encode()
        with writing(self._root, self._path):
            with suppress(FileNotFoundError):  # of a process that was killed
                self._files.remove_file(aside)
            self._files.write(aside, data)
            self._files.sync(aside)
            self._files.rename(aside, self._path)
            self._files.sync(self._path.parent)
        self.record = record

    def drop(self) -> None:
        """Forget the name; the checkpoints stay."""
        with writing(self._root, self._path), suppress(FileNotFoundError):
            self._files.remove_file(self._path)
            self._files.sync(self._path.parent)
        self.record = None

    def is_held(self) -> bool:
        """Whether nobody else has it: the system keeps the lock until `close`."""
        return self._lock >= 0

    def close(self) -> None:
        """Let others have the name; may be called again."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def _take(self) -> None:
        try:
            _lock(self._lock)
        except BlockingIOError:
            raise ConfigError(
                f"a stream {self.name!r} is running already, in {_holder(self._lock)}: two "
                "programs would share one state. Stop that one first, or give this one another "
                "name="
            ) from None
        with writing(self._root, self._lock_path):
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)


def read_record(root: Path, name: str, files: Files | None = None) -> NameRecord | None:
    """What is known of a name, whoever runs its stream; None: nothing."""
    path = root / NAMES / f"{plain(check_stream_name(name))}.json"
    record = _record(files or Files(), root, path)
    if record is not None and record.name != name:  # two names that a digest can't tell apart
        where = path.relative_to(root)
        raise DataError(f"{where} is of the stream {record.name!r}, not of {name!r}")
    return record


def _record(files: Files, root: Path, path: Path) -> NameRecord | None:
    where = str(path.relative_to(root))
    with reading(files, root, path):
        try:
            data = files.read(path)
        except FileNotFoundError:
            return None
    return parse_record(data, where)


def parse_record(data: bytes, where: str) -> NameRecord:
    """What a record says; `DataError` when it is damaged, or of another format."""
    try:
        found = json.loads(data)
        version = found.pop("version")
        record = NameRecord(**found) if version == VERSION else None
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise DataError(
            f"{where} in the checkpoint folder is damaged: {error}. It says which job the state "
            "of a stream belongs to; restore it, or remove it to begin that stream anew"
        ) from error
    if record is None:
        raise DataError(
            f"{where} in the checkpoint folder has format {version}, this Fabric reads format "
            f"{VERSION}; use the release that wrote it, or a newer one"
        )
    return record


# ---- for people who look after a checkpoint folder


@dataclass(frozen=True, slots=True)
class NamedStream:
    """What a checkpoint folder has of a stream with a name; `error`: what of it can't be read.

    `newest` is the checkpoint that its program would go on from, `runs_in` the process that runs
    it. Of a damaged record only the error is known, and `name` is that of the file.
    """

    name: str
    record: NameRecord | None = None
    newest: Manifest | None = None
    runs_in: str = ""
    error: str = ""


def named_streams(root: Path) -> list[NamedStream]:
    """Every stream that has a name in the checkpoint folder `root`, by name."""
    files, folder = Files(), root / NAMES
    with reading(files, root, folder):
        try:
            names = files.names(folder)
        except FileNotFoundError:
            return []
    return sorted(
        (_named(files, root, folder / name) for name in names if name.endswith(".json")),
        key=lambda one: one.name,
    )


def drop_stream(root: Path, name: str) -> NamedStream:
    """Forget a name, with all checkpoints of its stream; savepoints stay. Returns what it was.

    Raises
    ------
    NotFoundError
        There is none of that name; those that there are are named.
    ConfigError
        It is running.
    DataError, StorageError
        Its record is damaged, or the disk refuses.
    """
    if read_record(root, name) is None:
        names = ", ".join(repr(one.name) for one in named_streams(root)) or "none"
        raise NotFoundError(f"there is no stream {name!r} in {root}; there are: {names}")
    found = _named(Files(), root, root / NAMES / f"{plain(name)}.json")
    if found.runs_in:
        raise ConfigError(f"the stream {name!r} is running, in {found.runs_in}; stop it first")
    held = HeldName(root, name)
    try:
        if held.record is not None:
            FolderStorage(root).remove_job(held.record.state)  # first: or nobody could find it
        held.drop()
    finally:
        held.close()
    return found


def _named(files: Files, root: Path, path: Path) -> NamedStream:
    try:
        record = _record(files, root, path)
    except FabricError as error:
        return NamedStream(path.stem, error=error.message)
    if record is None:  # it was dropped meanwhile
        return NamedStream(path.stem)
    if plain(record.name) != path.stem:
        return NamedStream(path.stem, error=f"it is the stream {record.name!r}: it was moved")
    newest, why, storage = None, "", FolderStorage(root)
    try:
        if numbers := storage.checkpoints(record.state):
            newest = storage.load(record.state, numbers[-1])
    except FabricError as error:
        why = error.message
    return NamedStream(record.name, record, newest, _runs_in(path.with_suffix(".lock")), why)


def _runs_in(path: Path) -> str:
    """The process that holds the lock of a name; "" when none does."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(lock)
    finally:
        os.close(lock)
    return ""


def _lock(lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(LOOK_S)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _holder(lock: int) -> str:
    return os.pread(lock, 512, 0).decode(errors="replace") or "another process"


def check_stream_name(name: str) -> str:
    """Return `name` when a stream may be called so, else raise `ConfigError`.

    >>> check_stream_name("clicks per minute")
    'clicks per minute'
    """
    return check_label("stream", name)
