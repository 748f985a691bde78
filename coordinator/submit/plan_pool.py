"""Where submitted plans are prepared: apart from the threads that answer all other calls.

One job: `PlanPool`. Each plan has a thread of its own, at most `AT_ONCE` of them; what asks disks
and other servers may wait there without holding up anybody. Those that compute take turns, the one
that has had least of the processor first. The work of a plan ends when its client gives up, after
`plan_s`, or when the process has more memory than `memory`: then the plan that has computed most
gets an error, and the others wait for room. It ends at the next `check_wanted`; until then, or if
it is stuck in the system for ever, it is one of `STUCK_MAX`, and no other plan waits for it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, TypeVar

from fabric.cancellation import asking
from fabric.errors import CancelledError, ExhaustedError, FabricError
from fabric.process import give_back, resident_bytes

Request = TypeVar("Request")
Reply = TypeVar("Reply")

AT_ONCE = 64
STUCK_MAX = 256
"""Threads that the system does not give back, of plans that were given up."""
CLOSE_S = 2.0
"""How long plans may take to notice that the process ends."""
COMPUTING = 2
"""So many of them have the processor at a time, or it would be long in coming to other calls."""
_LOOK_S = 0.005
_TURN_S = 0.02
_AWAY_S = 0.1
"""A plan that has not asked for so long waits for a disk or a server, and takes no turn."""


class PlanPool:
    """Threads for plans; `answer` is called in an event loop, which is never held up."""

    def __init__(self, plan_s: float = 120.0, memory: int | None = None) -> None:
        """The coordinator's settings of these names."""
        self._plan_s = plan_s
        self._lock = threading.Lock()
        self._at_work: list[_Work] = []
        self._n_begun = 0
        self._memory = _Memory(memory)

    async def answer(self, call: Callable[[Request], Reply], request: Request) -> Reply:
        """What `call` makes of `request`, in a thread of its own.

        Raises
        ------
        ExhaustedError
            There are too many plans already, or this one takes too long or too much memory.
        """
        work = self._begin()
        run = copy_context().run  # it knows who calls
        threading.Thread(
            target=run, args=(self._run, work, call, request), name="planning", daemon=True
        ).start()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(work.answer), self._plan_s)
        except TimeoutError:
            late = ExhaustedError(
                f"the plan was not ready to run after {self._plan_s:g} s; make it smaller, or "
                "raise the coordinator's setting plan_s (FABRIC_COORDINATOR_PLAN_S)"
            )
            work.give_up(late)
            raise late from None
        except asyncio.CancelledError:
            work.give_up(CancelledError("the client gave up"))
            raise

    def close(self) -> None:
        """Give up what is at work; what is stuck ends with the process."""
        with self._lock:
            works = list(self._at_work)
        for work in works:
            work.give_up(CancelledError("the coordinator was stopped"))
        end_s = time.monotonic() + CLOSE_S
        for work in works:
            work.ended.wait(max(0.0, end_s - time.monotonic()))

    @property
    def n_at_work(self) -> int:
        """How many plans have a thread."""
        return len(self._at_work)

    def _begin(self) -> _Work:
        with self._lock:
            n_stuck = sum(work.reason is not None for work in self._at_work)
            if n_stuck >= STUCK_MAX:
                raise ExhaustedError(
                    f"{n_stuck} plans that were given up hang in disks or servers that do not "
                    "answer, which is the most; restart the coordinator once they answer again"
                )
            if len(self._at_work) - n_stuck >= AT_ONCE:
                raise ExhaustedError(
                    f"the coordinator prepares {AT_ONCE} plans already, which is the most; try "
                    "again in a moment"
                )
            self._n_begun += 1
            self._at_work.append(work := _Work(self._n_begun))
            return work

    def _run(self, work: _Work, call: Callable[[Any], Any], request: Any) -> None:
        try:
            with asking(lambda: self._ask(work)):
                reply = call(request)
        except BaseException as error:
            self._fail(work, error)
        else:
            self._end(work)
            if work.answer.set_running_or_notify_cancel():
                work.answer.set_result(reply)

    def _fail(self, work: _Work, error: BaseException) -> None:
        _let_go(error)
        if isinstance(error, MemoryError):
            error = self._memory.full()
        if isinstance(error, ExhaustedError):
            give_back()
        self._end(work)
        if work.answer.set_running_or_notify_cancel():
            work.answer.set_exception(error)

    def _end(self, work: _Work) -> None:
        with self._lock:
            self._at_work.remove(work)
        work.ended.set()

    def _ask(self, work: _Work) -> None:
        """End this plan's work when there is a reason; let it wait while others go first."""
        now_s = time.monotonic()
        if work.reason is None and now_s - work.asked_s < _LOOK_S:
            return
        while True:
            work.asked_s, work.used_s = now_s, time.thread_time()
            if work.reason is not None:
                raise work.reason
            if not self._memory.is_full(now_s):
                if self._n_before(work, now_s) < COMPUTING:
                    return
            elif self._has_used_most(work):
                raise self._memory.full()
            time.sleep(_TURN_S)
            now_s = time.monotonic()

    def _n_before(self, work: _Work, now_s: float) -> int:
        """How many plans that compute just now have used less of the processor than this one."""
        with self._lock:
            return sum(
                other.place < work.place and now_s - other.asked_s < _AWAY_S
                for other in self._at_work
            )

    def _has_used_most(self, work: _Work) -> bool:
        with self._lock:
            return work is max(self._at_work, key=lambda other: other.place)


class _Work:
    """One plan in its thread. `asked_s`: when it last asked whether it is wanted; `used_s`: how
    long it has had the processor until then."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.answer: Future[Any] = Future()
        self.ended = threading.Event()
        self.reason: FabricError | None = None
        self.asked_s = self.used_s = 0.0

    @property
    def place(self) -> tuple[float, int]:
        """In the order of turns."""
        return (self.used_s, self.number)

    def give_up(self, reason: FabricError) -> None:
        """Have the thread end at its next step."""
        self.reason = self.reason or reason


class _Memory:
    """The memory of the process, looked at every few milliseconds at most."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._looked_s = 0.0
        self._found = 0

    def is_full(self, now_s: float) -> bool:
        """Whether there is more than may be."""
        if self._most is None:
            return False
        if now_s - self._looked_s >= _LOOK_S:
            self._looked_s, self._found = now_s, resident_bytes()
        return self._found > self._most

    def full(self) -> ExhaustedError:
        """What a plan is refused with that there is no room for."""
        most = "all there is" if self._most is None else f"{self._most >> 20} MiB"
        return ExhaustedError(
            f"the plan needs more memory than the coordinator has left of {most}; make it smaller, "
            "or raise the coordinator's setting memory (fabric coordinator --memory)"
        )


def _let_go(error: BaseException | None) -> None:
    """Take off the tracebacks, which hold on to all that the plan has made."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
