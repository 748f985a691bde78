"""Where the files of a stream's sink lie before they are seen.

One job: the names of these places, how far each task is published, and a lock, so that only one
process publishes at a time. A process that dies lets go of the lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fabric.errors import NotFoundError, StorageAwayError, StorageError
from fabric.ids import TaskId
from fabric.io import places
from fabric.io.sinks.encoders import ENDINGS

LOCK_S = 10.0
_TRY_S = 0.02


@dataclass(frozen=True, slots=True)
class Folders:
    """The places of one sink of one job: `root` is hidden, beside `target`."""

    target: Path
    root: Path

    @staticmethod
    def of(path: str, job: str, stage: int) -> Folders:
        """The places of the sink that writes the folder `path`, itself or by a link to it.

        Raises `PlanError` where plans may not write.
        """
        places.check_write(path)
        target = Path(path).resolve()
        return Folders(target, target.parent / f".{target.name}.{job}-{stage}.stream")

    @property
    def working(self) -> Path:
        """Files of tasks, published by nobody yet."""
        return self.root / "work"

    @property
    def small(self) -> Path:
        """Published files that wait to be merged."""
        return self.root / "small"

    @property
    def merged(self) -> Path:
        """What is in merged files, one small file for each."""
        return self.root / "merged"

    def make(self) -> None:
        """Have all of them there."""
        for folder in (self.root, self.working, self.small, self.target):
            folder.mkdir(exist_ok=True)

    def published(self, task: int) -> tuple[int, int]:
        """The run and number of the last portion of `task` that was published."""
        try:
            run, number = json.loads((self.root / f"published-{task}").read_text())
        except FileNotFoundError:
            return (-1, -1)
        return int(run), int(number)

    def set_published(self, task: int, place: tuple[int, int]) -> None:
        """Write that down, all at once."""
        write_whole(self.root / f"published-{task}", json.dumps(place))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else publishes meanwhile; `StorageAwayError` when somebody does for too long."""
        file = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _wait_for(file, self.target)
            yield
        finally:
            os.close(file)


def task_name(task: TaskId) -> str:
    """What the names of a task's files begin with, whatever its attempt."""
    return f"{task.job}.{task.stage}-{task.task:05d}"


def file_name(task: TaskId, of_run: tuple[int, int], number: int, format: str) -> str:
    """The name of a file that no other one ever has: `of_run` is a portion of a run of the task."""
    run, portion = of_run
    return f"{task_name(task)}-{run:06d}-{portion:06d}-{number:04d}.{ENDINGS[format]}"


def check_above(path: Path) -> None:
    """Refuse a place whose folder is not there, or may not be written by this user."""
    if not path.parent.is_dir():
        raise NotFoundError(f"there is no folder {path.parent} to write {path.name} in; create it")
    if not os.access(path.parent, os.W_OK):
        raise StorageError(f"the folder {path.parent} may not be written by this user")


def names_below(folder: Path) -> list[str]:
    """All files of a folder and of those in it, in the order of folders and names."""
    found = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in sorted(found, key=lambda path: (path.parent, path.name))]


def write_whole(path: Path, text: str) -> None:
    """Replace a small file, durably: it is the old one or the new one."""
    aside = path.with_name(f"{path.name}.new")
    with aside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    synced(path.parent)


def synced(path: Path) -> None:
    """Force a file or folder to the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _wait_for(file: int, target: Path) -> None:
    end_s = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end_s:
                raise StorageAwayError(
                    f"another process has been publishing to {target} for {LOCK_S:.0f} s; it is "
                    "tried again until that one has ended, or goes on if it was stopped"
                ) from None
            time.sleep(_TRY_S)
        else:
            return
