"""The folders of an agent: the one it lives in, and those it spills to, each with a lock.

`AgentFolder` has the agent's id, which survives a restart, because an agent that comes back to its
folder owns the datasets in it again; its lock keeps a second agent out.

`SpillFolders` makes a folder of this life of the agent in each place it may spill to, and removes
those of lives that are over. A life holds the lock on a file in its folders for as long as it
lasts: a folder that can be locked by another belongs to nobody. What a dead life of the same agent
left is removed at once, because nobody can read it; what another agent left is when it is old.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from fabric.clock import Clock, SystemClock
from fabric.errors import ConfigError, StorageError
from fabric.ids import check_name, new_id
from fabric.telemetry.logs import logger

_log = logger("fabric.agent")
_PREFIX, _LOCK = "spill-", "lock"


class AgentFolder:
    """`path`, made when it is not there, and locked for as long as the block lasts.

    Raises `StorageError` when another agent has it, or it can't be used.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with AgentFolder(Path(home) / "1") as folder:
    ...         first = folder.agent_id
    ...     with AgentFolder(Path(home) / "1") as folder:
    ...         first == folder.agent_id
    True
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.agent_id = ""
        self._lock = -1

    def __enter__(self) -> AgentFolder:
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.agent_id = self._identity()
        except OSError as error:
            self._unlock()
            if isinstance(error, BlockingIOError):
                raise StorageError(
                    f"another agent runs in {self.path}; give this one a folder of its own"
                ) from error
            raise StorageError(
                f"can't use the agent folder {self.path}: {error.strerror}"
            ) from error
        except ConfigError:
            self._unlock()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._unlock()

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _identity(self) -> str:
        file = self.path / "agent-id"
        if not file.exists():
            aside = file.with_suffix(".new")
            aside.write_text(new_id("agent"), encoding="ascii")
            aside.rename(file)
        return check_name(file.read_text(encoding="ascii").strip(), "agent id")


class SpillFolders:
    """`paths`, one in each of `roots`, for as long as the block lasts.

    What other agents left goes when it is `sweep_s` old. `StorageError` when a root can't be used.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with SpillFolders([Path(root)], "agent-1") as folders:
    ...         (folders.paths[0] / "file").touch()
    ...     list(Path(root).iterdir())
    []
    """

    def __init__(
        self,
        roots: Sequence[Path],
        agent_id: str,
        *,
        sweep_s: float = 3600.0,
        clock: Clock | None = None,
    ) -> None:
        self._roots, self._agent_id, self._sweep_s = list(roots), agent_id, sweep_s
        self._clock = clock or SystemClock()
        self._locks: list[int] = []
        self.paths: list[Path] = []

    def __enter__(self) -> SpillFolders:
        try:
            for root in self._roots:
                try:
                    self._locks.append(self._live_in(root))
                except OSError as error:
                    raise StorageError(
                        f"can't spill to {root}: {error.strerror}; give another folder with --spill"
                    ) from error
            self.sweep()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def sweep(self) -> int:
        """Remove what dead agents left; how many folders that were."""
        n_removed = 0
        for root in self._roots:
            for path in _entries(root):
                if path not in self.paths and self._is_left(path):
                    shutil.rmtree(path, ignore_errors=True)
                    n_removed += 1
        if n_removed:
            _log.info("spill folders of dead agents removed", folders=n_removed)
        return n_removed

    def _live_in(self, root: Path) -> int:
        """Make the folder and lock it before it has its name, so that nobody takes it for left."""
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = f"{_PREFIX}{self._agent_id}-{secrets.token_hex(4)}"
        aside = root / f"new-{name}"
        aside.mkdir(mode=0o700)
        lock = os.open(aside / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            aside.rename(root / name)
        except OSError:
            os.close(lock)
            raise
        self.paths.append(root / name)
        return lock

    def _is_left(self, path: Path) -> bool:
        """Whether a folder is one of a life that is over, and nobody waits for it."""
        name = path.name.removeprefix("new-")
        if not name.startswith(_PREFIX):
            return False
        try:
            found = path.lstat()
            ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
            old = self._clock.wall_s() - found.st_mtime > self._sweep_s
            same = path.name.startswith(f"{_PREFIX}{self._agent_id}-")
            return ours and (old or same) and not _is_locked(path / _LOCK)
        except OSError:
            return False

    def _end(self) -> None:
        for path in self.paths:
            shutil.rmtree(path, ignore_errors=True)
        for lock in self._locks:
            os.close(lock)
        self._locks.clear()


def _entries(root: Path) -> list[Path]:
    try:
        return sorted(root.iterdir())
    except OSError:  # gone since; the next spill says so
        return []


def _is_locked(path: Path) -> bool:
    """Whether somebody who lives holds it."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(lock)
