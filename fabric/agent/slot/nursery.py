"""The process that makes slots: everything imported, one thread, so that a fork is safe and cheap.

One job: `main`. The agent asks for a slot (with its socket, its output and its page) or for the end
of one; there is nothing else it does. A fork takes milliseconds where a start with its imports
takes a second, and slots share the memory of what was imported. It ends when the agent's end of the
socket is closed, however the agent ended, and slots end with it: the system kills them.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import select
import signal
import socket
import struct
import sys
from contextlib import suppress

from fabric.heap import forbid_cores, settle_heap

REQUEST, REPLY = struct.Struct("<Bq"), struct.Struct("<q")
"""Kind and number. SPAWN is answered by a process id; for REAP the number is one, answered by its
wait status; COMPILE says that slots will compile functions."""
SPAWN, REAP, COMPILE = 1, 2, 3
UNKNOWN = -1
"""The answer for a process that is not, or no more, a slot of this nursery."""
LEAVE_S = 1.0
"""How long a slot that is to end may take for it."""
OOM_SCORE = 500
"""When memory is short, the system ends slots before agents."""
_PR_SET_PDEATHSIG = 1


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
    from fabric.agent.memory import prepare_process

    prepare_process()
    from fabric.agent.slot import worker

    worker.prepare()


def _prepare_compiler() -> int:
    """Import Numba and wake its compiler: a second, which each slot would need."""
    import numpy as np
    import pyarrow as pa

    from fabric.operators.functions.compiled import NotCompiledError, compiled

    with suppress(NotCompiledError):  # Numba is not installed: who needs it will say so
        compiled(lambda value: value + 0.5, (pa.float64(),), pa.float64())(np.zeros(1))
    settle_heap()
    return 0


def _spawn(agent: socket.socket, descriptors: list[int]) -> int:
    nursery = os.getpid()
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        agent.close()
        _settle(nursery, descriptors[1])
        from fabric.agent.slot.worker import serve

        serve(socket.socket(fileno=descriptors[0]), descriptors[2])
        code = 0
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)  # neither the nursery's way on, nor what a function registered


def _settle(nursery: int, output: int) -> None:
    """Make a fresh fork a process of its own."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != nursery:  # it ended before we asked
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
