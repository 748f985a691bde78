"""One server for all processes of a run of pytest.

One job: `shared`. The first process that asks starts the server; each that uses it keeps a named
pipe open, and the last closing ends the server, also that of a killed process, which the kernel
does. Starting and ending are done under a file's lock.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fabric.clients.demo.services.server import KEEPER, Server, locked

_LOCK = threading.Lock()
_ADDRESSES: dict[str, str] = {}
RUN_ID = os.environ.get("PYTEST_XDIST_TESTRUNUID") or secrets.token_hex(8)
"""Names this run: its processes find each other's servers by it."""


def shared(name: str, make: Callable[[], Server]) -> str:
    """The address of this run's server `name`, which `make` makes where there is none."""
    with _LOCK:
        if name not in _ADDRESSES:
            base = Path(tempfile.gettempdir(), f"fabric-{name}-{os.getuid()}-{RUN_ID}")
            with locked(base.with_suffix(".lock")):
                if not _joined(base.with_suffix(".pipe")):
                    _start(base, make())
                _ADDRESSES[name] = base.with_suffix(".address").read_text()
        return _ADDRESSES[name]


def _joined(pipe: Path) -> bool:
    """Keep the pipe open until this process ends; false when no keeper reads it."""
    with suppress(OSError):  # no such file, or nobody has it open for reading
        os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        return True
    return False


def _start(base: Path, server: Server) -> None:
    """Start the server under a keeper that waits for all users; this process is the first."""
    pipe, lock, address = (base.with_suffix(end) for end in (".pipe", ".lock", ".address"))
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe, 0o600)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    kept = os.open(pipe, os.O_WRONLY)
    os.set_blocking(reading, True)
    removed = [f"--remove={path}" for path in (server.folder, pipe, address, lock)]
    try:
        server.start_under([*KEEPER, f"--lock={lock}", *removed], stdin=reading)
    except BaseException:
        os.close(kept)  # ends it
        raise
    finally:
        os.close(reading)
    server.leave()
    address.write_text(server.address)
