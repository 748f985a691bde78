"""An agent whose runtime does not turn any more ends, so that it is started again.

One job: `Watchdog`. Heartbeats go on while the thread that obeys orders hangs, or while all threads
of the query engine do: the coordinator would give such an agent tasks for ever. So each `Runtime`
is asked for a sign again and again; one that gives none for `stuck_s` is named with what its
threads were doing, and the process ends with `CODE`. Time that the whole process was stopped for
(SIGSTOP, a machine asleep) does not count.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fabric.telemetry.logs import logger

_log = logger("fabric.agent")

CODE = 75
"""EX_TEMPFAIL of sysexits.h: try again."""
ENGINE_SHARE = 2.0
"""The engine has more time: a hung read is given up after `stuck_s`, see `io.read_threads`."""
_TICK_S = 1.0
_SAY_S = 5.0
_ENGINE_THREADS = "tokio-rt-worker"

Came = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Runtime:
    """What should turn: `ask` has it give a sign, and returns what tells whether it came.

    `threads` are those whose stacks are told, by their names. `works` returns a number that grows
    while it is busy with something that takes long: then it is not stuck.
    """

    name: str
    ask: Callable[[], Came]
    threads: Callable[[], Iterable[tuple[str, int]]]
    share: float = 1.0
    works: Callable[[], float] = lambda: 0.0


class Watchdog:
    """Looks after `runtimes` in a thread of its own until `close`."""

    def __init__(
        self,
        runtimes: Sequence[Runtime],
        stuck_s: float,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._runtimes, self._stuck_s, self._end = runtimes, stuck_s, end
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        tick_s = min(_TICK_S, self._stuck_s / 4)
        asked = {runtime.name: _Asked(runtime) for runtime in self._runtimes}
        while not self._closed.wait(tick_s):
            for one in asked.values():
                if one.waited(tick_s) >= self._stuck_s * one.runtime.share:
                    self._tell(one)
                    self._end(CODE)
                    return

    def _tell(self, one: _Asked) -> None:
        """In a thread of its own: whoever reads what is logged may be what everything hangs on."""

        def tell() -> None:
            _log.critical(
                f"{one.runtime.name} has not turned for {one.waited_s:g} s: this process ends with "
                f"code {CODE}, to be started again (FABRIC_AGENT_STUCK_S)",
                stacks=stacks(one.runtime.threads()),
            )

        teller = threading.Thread(target=tell, name="watchdog's word", daemon=True)
        teller.start()
        teller.join(_SAY_S)


class _Asked:
    """One runtime, and since when it owes a sign; counted in ticks, see above."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime, self.waited_s = runtime, 0.0
        self._came, self._worked = runtime.ask(), runtime.works()

    def waited(self, tick_s: float) -> float:
        """How long it owes one, after another `tick_s`."""
        if self._came():
            self._came, self.waited_s = self.runtime.ask(), 0.0
            self._worked = self.runtime.works()
            return 0.0
        self.waited_s += tick_s
        if (worked := self.runtime.works()) > self._worked:
            self._worked, self.waited_s = worked, 0.0
        return self.waited_s


def stacks(threads: Iterable[tuple[str, int]]) -> str:
    """What threads are doing, the innermost call last."""
    frames = sys._current_frames()
    told = []
    for name, ident in threads:
        calls = traceback.format_stack(frames[ident]) if ident in frames else ["  not in Python\n"]
        told.append(f"{name}:\n{''.join(calls)}")
    return "\n".join(told)


def thread_runtime(name: str, thread: threading.Thread, ask: Callable[[], Came]) -> Runtime:
    """A thread that comes by again and again."""
    return Runtime(name, ask, lambda: [(thread.name, thread.ident or 0)])


def engine_runtime(is_busy: Callable[[], bool]) -> Runtime:
    """DataFusion's threads, which all jobs share; asked while there is work for them."""
    return Runtime(
        "the query engine", lambda: _ask_engine(is_busy), _engine_threads, ENGINE_SHARE, engine_s
    )


def _ask_engine(is_busy: Callable[[], bool]) -> Came:
    """A query that needs one of them, from a thread that may be lost."""
    if not is_busy() or "datafusion" not in sys.modules:
        return lambda: True
    came = threading.Event()
    threading.Thread(target=_query, args=(came,), name="engine's sign", daemon=True).start()
    return came.is_set


def _query(came: threading.Event) -> None:
    import datafusion

    try:
        datafusion.SessionContext().sql("select 1 union all select 2").collect()
    finally:
        came.set()


def _engine_threads() -> list[tuple[str, int]]:
    """Threads that Python did not start, as it knows those of the engine while they call it."""
    known = {thread.ident for thread in threading.enumerate()}
    return [("a thread of the engine", ident) for ident in sys._current_frames().keys() - known]


def engine_s() -> float:
    """Seconds of processor time that the engine's threads have taken (Linux), in ticks."""
    taken = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            text = (task / "stat").read_text()
        except OSError:  # it has just ended
            continue
        name, _, rest = text.partition("(")[2].rpartition(")")
        if name == _ENGINE_THREADS:
            taken += sum(map(int, rest.split()[11:13]))
    return taken / os.sysconf("SC_CLK_TCK")
