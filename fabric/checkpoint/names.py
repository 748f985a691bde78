"""Which job the state of a named stream belongs to, and who runs that stream now.

    <root>/.names/clicks.json    the job that "clicks" was first, and how often it was started
                 /clicks.lock    locked by the process that runs it, as long as that lives

One job: `HeldName`. Each start of a program is a job of its own; checkpoints and output of all lie
under the id of the first one, which a program that is run again finds by the name. The number of
starts makes whatever a sink writes aside unique: a program that was killed can't say how far it
came. The operating system drops the lock of a process that ends, however it ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fabric.checkpoint.files import Files, reading, writing
from fabric.checkpoint.folder import NAMES, plain
from fabric.checkpoint.manifest import check_label
from fabric.errors import ConfigError, DataError

VERSION = 1


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
        data = json.dumps({"version": VERSION, **asdict(record)}, sort_keys=True).encode()
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

    def close(self) -> None:
        """Let others have the name; may be called again."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def _take(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._lock, 512, 0).decode(errors="replace") or "another process"
            raise ConfigError(
                f"a stream {self.name!r} is running already, in {holder}: two programs would share "
                "one state. Stop that one first, or give this one another name="
            ) from None
        with writing(self._root, self._lock_path):
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)


def read_record(root: Path, name: str, files: Files | None = None) -> NameRecord | None:
    """What is known of a name, whoever runs its stream; None: nothing."""
    files = files or Files()
    path = root / NAMES / f"{plain(check_stream_name(name))}.json"
    where = str(path.relative_to(root))
    with reading(files, root, path):
        try:
            data = files.read(path)
        except FileNotFoundError:
            return None
    try:
        found = json.loads(data)
        version = found.pop("version")
        record = NameRecord(**found) if version == VERSION else None
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise DataError(
            f"{where} in the checkpoint folder is damaged: {error}. It says which job the state "
            f"of the stream {name!r} belongs to; restore it, or remove it to begin anew"
        ) from error
    if record is None:
        raise DataError(
            f"{where} in the checkpoint folder has format {version}, this Fabric reads format "
            f"{VERSION}; use the release that wrote it, or a newer one"
        )
    if record.name != name:  # two names that a digest can't tell apart
        raise DataError(f"{where} is of the stream {record.name!r}, not of {name!r}")
    return record


def check_stream_name(name: str) -> str:
    """Return `name` when a stream may be called so, else raise `ConfigError`.

    >>> check_stream_name("clicks per minute")
    'clicks per minute'
    """
    return check_label("stream", name)
