"""The process that forks slots (`main`), and the agent's face of it (`Forkserver`).

It has everything imported, and one thread, so that a fork is safe and cheap: a fork takes
milliseconds where a start with its imports takes a second, and slots share the memory of what was
imported. The agent asks for a slot (with its socket, its output and its page) or for the end of
one; there is nothing else it does. It ends when the agent's end of the socket is closed, however
the agent ended, and slots end with it: the system kills them.

`Forkserver` starts that process when the first slot is wanted, and anew when it died. What slots
inherit of the agent's environment is what every program needs, and what the agent's settings name.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock

from fabric.errors import ExternalError
from fabric.process import forbid_cores, settle_heap
from fabric.telemetry.logs import SECRET_WORDS

REQUEST, REPLY = struct.Struct("<Bq"), struct.Struct("<q")
"""Kind and number. SPAWN is answered by a process id; for REAP the number is one, answered by its
wait status; COMPILE says that slots will compile functions."""
SPAWN, REAP, COMPILE = 1, 2, 3
UNKNOWN = -1
"""The answer for a process that is not, or no more, a slot of this forkserver."""
LEAVE_S = 1.0
"""How long a slot that is to end may take for it."""
OOM_SCORE = 500
"""When memory is short, the system ends slots before agents."""
_PR_SET_PDEATHSIG = 1
START_S = 60.0
"""How long the forkserver may take for its imports, and for an answer."""
_CODE = """
import sys
sys.path[:] = sys.argv[2:]
from fabric.agent.slot.forkserver import main
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


def main(descriptor: int) -> None:
    """Serve the agent at the other end of `descriptor`, until that is closed."""
    agent = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    forbid_cores()
    _import()
    settle_heap()  # else collecting in a slot would write to pages that all share
    agent.send(REPLY.pack(os.getpid()))
    slots: set[int] = set()
    while True:
        data, descriptors, _, _ = socket.recv_fds(agent, REQUEST.size, 3)
        if not data:
            return
        kind, number = REQUEST.unpack(data)
        if kind == SPAWN:
            answer = _spawn(agent, descriptors)
            slots.add(answer)
        elif kind == COMPILE:
            answer = _prepare_compiler()
        else:
            answer = _reap(number) if number in slots else UNKNOWN
            slots.discard(number)
        for given in descriptors:
            os.close(given)
        agent.send(REPLY.pack(answer))


def _import() -> None:
    """Everything a task may need; agents' allocator settings are in the environment."""
    from fabric.agent.process.memory import prepare_process

    prepare_process()
    from fabric.agent.slot import worker

    worker.prepare()


def _prepare_compiler() -> int:
    """Import Numba and wake its compiler: a second, which each slot would need."""
    import numpy as np
    import pyarrow as pa

    from fabric.operators.functions.compilation import NotCompiledError, compiled

    with suppress(NotCompiledError):  # Numba is not installed: who needs it will say so
        compiled(lambda value: value + 0.5, (pa.float64(),), pa.float64())(np.zeros(1))
    settle_heap()
    return 0


def _spawn(agent: socket.socket, descriptors: list[int]) -> int:
    forkserver = os.getpid()
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        agent.close()
        _settle(forkserver, descriptors[1])
        from fabric.agent.slot.worker import serve

        serve(socket.socket(fileno=descriptors[0]), descriptors[2])
        code = 0
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)  # neither the forkserver's way on, nor what a function registered


def _settle(forkserver: int, output: int) -> None:
    """Make a fresh fork a process of its own."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != forkserver:  # it ended before we asked
        os._exit(0)
    os.setsid()
    for number in (1, 2):
        os.dup2(output, number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.enable(all_threads=True)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
        score.write(str(OOM_SCORE))
    if "numpy.random" in sys.modules:  # else all slots draw the same numbers; `random` sees to it
        sys.modules["numpy.random"].seed()


def _reap(child: int) -> int:
    """The wait status of `child`, which is killed unless it ends by itself in a moment."""
    try:
        ended = os.pidfd_open(child)
        select.select([ended], [], [], LEAVE_S)
        os.close(ended)
    finally:
        os.kill(child, signal.SIGKILL)
        with suppress(ProcessLookupError):  # it ended before it had a group
            os.killpg(child, signal.SIGKILL)  # what it started
    return os.waitpid(child, 0)[1]


class Forkserver:
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
        knows, as the forkserver that made it died."""
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
        raise ConnectionResetError("the forkserver ended")
    return int(REPLY.unpack(data)[0])
