"""Processes of a fabric, forked from one that has imported all they need.

One job: `start`, which runs the command line ``fabric`` in a process of its own, and `program`,
which runs a function of a module, as a user's program that is embedded. Its imports, and those of
the process that an agent turns into, took 1.5 of the 1.8 CPU-s of a start, hundreds of times in a
run of all tests; those of a program take 4 s. Agents that are told how to keep memory prepare their
allocators before they import anything: they are started by the command itself
(`tests/support/local.py`).
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

_IMPORTED = {
    "fabric": ("fabric.agent.process.service", "fabric.coordinator.main", "tests.support.held"),
    "programs": (
        "fabric.agent.engine",
        "fabric.clients.session.local",
        "duckdb",
        "tests.support.held",
    ),
}
"""By kind of process; agents are forked without what only programs need."""
TRACE = "FABRIC_TEST_TRACE"
"""The variable of a process that `tests.support.tracer` traces: its file and steps, as JSON."""
HELD = "FABRIC_TEST_HELD"
"""The variable of a process whose sources wait while the file that it names is there, see
`tests.support.held`."""
_REQUEST_BYTES = 1 << 20
_END_S = 5.0


@dataclass(slots=True)
class Forked:
    """A process as `subprocess.Popen` shows it; `pidfd` stays its own when its number is reused."""

    pid: int
    pidfd: int
    kind: str = "fabric"
    returncode: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def poll(self) -> int | None:
        """How it ended, as `subprocess.Popen.poll` says it; None: it has not."""
        with self._lock:
            if self.returncode is None and select.select([self.pidfd], [], [], 0)[0]:
                status = _nursery(self.kind).ask({"reap": self.pid})
                self.returncode = os.waitstatus_to_exitcode(status)
                os.close(self.pidfd)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its end; `subprocess.TimeoutExpired` when it does not come in time."""
        if self.returncode is None and not select.select([self.pidfd], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(["fabric"], timeout or 0.0)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)


def start(
    arguments: Sequence[str], out: IO[bytes], environ: Mapping[str, str], *, stays: bool = True
) -> Forked:
    """``fabric`` with `arguments` in a session of its own; what it prints goes to `out`.

    What `stays` is told its parent, and ends with it.
    """
    return _forked("fabric", {"arguments": list(arguments), "stays": stays}, out, environ)


def program(
    place: str, arguments: Sequence[str], out: IO[bytes], environ: Mapping[str, str]
) -> Forked:
    """The function at `place`, as ``module:function``, as a program of its own; see `start`."""
    return _forked("programs", {"arguments": list(arguments), "place": place}, out, environ)


def _forked(
    kind: str, request: dict[str, Any], out: IO[bytes], environ: Mapping[str, str]
) -> Forked:
    request |= {"environ": dict(environ), "folder": os.getcwd()}
    pid = _nursery(kind).ask(request, out.fileno())
    return Forked(pid, os.pidfd_open(pid), kind)


def running() -> list[int]:
    """The process ids of those that `start` started and whose end nobody has seen."""
    return _nursery("fabric").children()


class _Nursery:
    """The process that forks; it ends with this one, and all that it forked with it."""

    def __init__(self, kind: str) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-m", "tests.support.forked", str(theirs.fileno()), kind],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        atexit.register(self.close)

    def ask(self, request: dict[str, Any], *descriptors: int) -> int:
        data = json.dumps(request).encode()
        with self._lock:
            socket.send_fds(self._socket, [data], descriptors)
            answer = self._socket.recv(64)
        if not answer:
            raise RuntimeError("the process that forks agents and coordinators has ended")
        return int(answer)

    def children(self) -> list[int]:
        pid = self._process.pid
        return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def close(self) -> None:
        self._socket.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)


@lru_cache(maxsize=len(_IMPORTED))
def _nursery_of(_process: int, kind: str) -> _Nursery:
    return _Nursery(kind)


_MAKING = threading.Lock()


def _nursery(kind: str) -> _Nursery:
    """That of this process: a fork of it makes its own."""
    with _MAKING:
        return _nursery_of(os.getpid(), kind)


def main(descriptor: int, kind: str) -> int:
    """Serve the tests at the other end until they end; in a fork: run the command."""
    tests = socket.socket(fileno=descriptor)
    if kind == "fabric":
        from fabric.agent.process.memory import prepare_process

        prepare_process()
    for module in _IMPORTED[kind]:
        import_module(module)
    from fabric.clients.cli import main as command
    from fabric.process import settle_heap

    settle_heap()
    while True:
        data, given, _, _ = socket.recv_fds(tests, _REQUEST_BYTES, 1)
        if not data:
            return 0
        request = json.loads(data)
        if "reap" in request:
            answer = os.waitpid(request["reap"], 0)[1]
        elif (answer := _fork(tests, request, given[0])) == 0:
            if held := os.environ.get(HELD):
                import_module("tests.support.held").install(Path(held))
            if place := request.get("place", ""):
                return _run(place, request["arguments"])
            if TRACE in os.environ:
                import_module("tests.support.tracer").install()
            parent = ["--parent", str(os.getppid())] if request["stays"] else []
            return command.main([*request["arguments"], *parent])
        else:
            os.close(given[0])
        tests.send(str(answer).encode())


def _run(place: str, arguments: list[str]) -> int:
    """In a fork: run a function as a program."""
    from fabric import failpoints

    failpoints.arm()
    module, _, name = place.partition(":")
    getattr(import_module(module), name)(*arguments)
    return 0


def _fork(tests: socket.socket, request: dict[str, Any], out: int) -> int:
    """The fork's process id; 0: this is the fork, a process as if it had just been started."""
    if pid := os.fork():
        return pid
    tests.close()
    os.setsid()
    for number in (1, 2):
        os.dup2(out, number)
    os.close(out)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.argv[:] = ["fabric", *request["arguments"]]
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
