"""The agent's face of its nursery.

One job: `Nursery`: starts that process when the first slot is wanted, anew when it died, and asks
it for slots. What slots inherit of the agent's environment is what every program needs, and what
the agent's settings name.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from threading import Lock

from fabric.agent.slot.nursery import COMPILE, REAP, REPLY, REQUEST, SPAWN, UNKNOWN
from fabric.errors import ExternalError
from fabric.telemetry.logs import SECRET_WORDS

START_S = 60.0
"""How long the nursery may take for its imports, and for an answer."""
_CODE = """
import sys
sys.path[:] = sys.argv[2:]
from fabric.agent.slot.nursery import main
main(int(sys.argv[1]))
"""
_JEMALLOC = "JE_ARROW_MALLOC_CONF"
_HARMLESS = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TERM", "LANG", "LANGUAGE", "LC_*", "TZ",
    "TZDIR", "PYTHON*", "VIRTUAL_ENV", "CONDA_*", "LD_*", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "CUDA_*", "NVIDIA_*", "ROCR_*", "HIP_*", "OMP_*", "MKL_*", "OPENBLAS_*", "NUMEXPR_*", "NUMBA_*",
    "ARROW_*", "MIMALLOC_*", "MALLOC_*", "ASAN_OPTIONS", _JEMALLOC,
)  # fmt: skip
"""Variables that every program may need, and that say how libraries compute and take memory."""


class Nursery:
    """Makes slot processes; any thread may ask."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        """Slots see the variables `names`, too."""
        self._names = tuple(names)
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._compiles = False

    @property
    def pid(self) -> int:
        """Of its process; 0 while there is none."""
        process = self._process
        return process.pid if process is not None else 0

    def spawn(self, descriptors: Sequence[int], *, compiles: bool = False) -> int:
        """A new slot with a socket, output and page, in this order; returns its process id.

        It `compiles` functions: the first time that takes a second.
        """
        with self._lock:
            for may_repeat in (True, False):
                try:
                    if compiles and not self._compiles:
                        self._ask(COMPILE, 0, ())
                        self._compiles = True
                    return self._ask(SPAWN, 0, descriptors)
                except OSError as error:
                    self._end()
                    if not may_repeat:
                        raise ExternalError(
                            "no process for Python functions could be started: "
                            f"{type(error).__name__}; the agent's log says more"
                        ) from error
            raise AssertionError("unreachable")

    def reap(self, slot: int) -> int | None:
        """How `slot` ended (it is killed unless it ends now): its wait status; None when nobody
        knows, as the nursery that made it died."""
        with self._lock:
            if self._socket is None:
                return None
            try:
                status = self._ask(REAP, slot, ())
            except OSError:
                self._end()
                return None
            return None if status == UNKNOWN else status

    def close(self) -> None:
        """End it, and with it every slot."""
        with self._lock:
            self._end()

    def _ask(self, kind: int, number: int, descriptors: Sequence[int]) -> int:
        end = self._socket or self._start()
        socket.send_fds(end, [REQUEST.pack(kind, number)], list(descriptors))
        return _answer(end)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(START_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CODE, str(theirs.fileno()), *sys.path],
                stdin=subprocess.DEVNULL,
                stdout=2,
                pass_fds=[theirs.fileno()],
                env=inherited(os.environ, self._names),
                start_new_session=True,
            )
        self._socket = ours
        _answer(ours)  # it is ready
        return ours

    def _end(self) -> None:
        self._compiles = False
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def inherited(environ: Mapping[str, str], names: Sequence[str] = ()) -> dict[str, str]:
    """What of `environ` slots see: what is known to be harmless, and `names` whatever they are.

    >>> seen = inherited({"PATH": "/bin", "PGPASSFILE": "/x", "SHOP": "abc"}, ["SH*"])
    >>> seen["PATH"], seen["SHOP"], "PGPASSFILE" in seen
    ('/bin', 'abc', False)
    """
    seen = {
        name: value
        for name, value in environ.items()
        if _is_among(name, names)
        or (_is_among(name, _HARMLESS) and not any(word in name.lower() for word in SECRET_WORDS))
    }
    # A thread of jemalloc would be one more than a process that forks should have.
    seen[_JEMALLOC] = f"{seen.get(_JEMALLOC, 'muzzy_decay_ms:0')},background_thread:false"
    return seen


def _is_among(name: str, known: Sequence[str]) -> bool:
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in known)


def _answer(end: socket.socket) -> int:
    data = end.recv(REPLY.size)
    if len(data) != REPLY.size:
        raise ConnectionResetError("the nursery ended")
    return int(REPLY.unpack(data)[0])
