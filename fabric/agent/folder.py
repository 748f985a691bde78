"""The folder an agent lives in: its id, and the lock that keeps a second agent out.

One job: an id that survives a restart, because an agent that comes back to its folder owns the
datasets in it again.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from fabric.errors import ConfigError, StorageError
from fabric.ids import check_name, new_id


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
