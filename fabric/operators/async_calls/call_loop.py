"""The event loop of an asynchronous step: it makes the requests that `PendingRequests` begins.

    operator's thread                      thread of the event loop (uvloop)
    offer(rows) ─────► PendingRequests ◄── a timer is due, an attempt has ended
    take() ◄────────── (under a lock)  ──► begin, cancel: a task of asyncio for each attempt

One job: `CallLoop`. Attempts begin, time out and are made again without the operator's help. Each
step of a user's coroutine is watched as every call of a user's code is (`user_code.py`). A function
that never awaits stops all requests: that is noticed, and told.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from queue import Empty, SimpleQueue
from typing import Any

from fabric.errors import ExternalError, FabricError, InternalError, UserError
from fabric.operators.async_calls.answers import failure_of
from fabric.operators.async_calls.pending import (
    Answer,
    Begin,
    Effect,
    Failure,
    Outcome,
    PendingRequests,
    RequestLimits,
)
from fabric.operators.functions.user_code import interrupt, said, watched

AsyncFunction = Callable[[Any], Coroutine[Any, Any, Any]]
Read = Callable[[Any, int], object]
"""What an answer for so many rows means; raises `FabricError` for what it can't be."""
OPEN_S = 60.0
CLOSE_S = 5.0
BLOCKED_S = 10.0
"""So long at least a function may run without an await."""


class CallLoop:
    """Calls `function`, which was pickled as `payload`; `open` and `close` it once.

    All methods are for one thread. `clock` gives seconds, `jitter` numbers from 0 to 1.
    """

    def __init__(
        self,
        function: AsyncFunction,
        limits: RequestLimits,
        read: Read,
        *,
        name: str,
        payload: bytes,
        jitter: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._function, self._read = function, read
        self._name, self._payload, self._clock = name, payload, clock
        self._blocked_s = max(BLOCKED_S, limits.timeout_us / 1e6)
        self._requests = PendingRequests(limits, jitter)
        self._lock = threading.Lock()
        """Held by whoever looks at or changes the requests."""
        self._tokens: SimpleQueue[None] = SimpleQueue()
        """Has one when something may be taken. It is no condition: a wait that is interrupted from
        another thread leaves none in two minds."""
        self._arguments: dict[int, tuple[Any, int]] = {}
        self._tasks: dict[int, asyncio.Task[Outcome]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = 0
        self._asked_s: float | None = None
        """Since when the loop has been asked to look at the requests, and has not."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="async calls", daemon=True)

    # ---- for the operator's thread

    def open(self) -> None:
        """Start the loop, and await the function's own `open`; raises what that raised."""
        self._thread.start()
        if not self._opened.wait(OPEN_S + CLOSE_S):  # it does not even await
            raise ExternalError(f"open() of {self._name} took longer than {OPEN_S:g} s")
        if self._failed is None:
            return
        if isinstance(self._failed, FabricError):
            raise self._failed
        kind = ExternalError if isinstance(self._failed, OSError) else UserError
        raise kind(f"open() of {self._name} raised {said(self._failed)}") from self._failed

    def offer(self, argument: Any, n_rows: int, n_bytes: int, watermark: int) -> int | None:
        """Make a request; returns its number, None where there is no room."""
        with self._lock:
            if not self._requests.has_room(n_rows, n_bytes):
                return None
            number = self._requests.add(n_rows, n_bytes, watermark)
            self._arguments[number] = argument, n_rows
        return number

    def take(self, wait_s: float) -> list[tuple[int, Outcome]]:
        """What may leave, by number; waits for something at most `wait_s`."""
        with self._lock:
            self._wake()
            nothing = not self._requests.has_done
        if nothing and wait_s:
            with watched(self._payload), suppress(Empty):
                self._tokens.get(timeout=wait_s)
        with self._lock:
            taken = self._requests.take()
            for number, _ in taken:
                del self._arguments[number]
        return taken

    def held_us(self) -> int | None:
        """See `PendingRequests`."""
        with self._lock:
            return self._requests.held_us()

    def inside(self) -> list[int]:
        """See `PendingRequests`."""
        with self._lock:
            return self._requests.inside()

    @property
    def n_retried(self) -> int:
        """How many attempts were made again."""
        return self._requests.n_retried

    def close(self) -> None:
        """Cancel what is under way, await the function's own `close`, and end the thread."""
        if self._loop is None or not self._thread.is_alive():
            return
        with suppress(RuntimeError):  # it has ended just now
            self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(CLOSE_S)
        if self._thread.is_alive() and self._thread.ident is not None:
            interrupt(self._thread.ident)
            self._thread.join(1.0)

    def _wake(self) -> None:
        """Have the loop look at the requests; the lock is held."""
        now_s = self._clock()
        if not self._thread.is_alive():
            raise InternalError(f"the event loop of {self._name} has ended: {self._failed!r}")
        if self._asked_s is None:
            self._asked_s = now_s
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._turn)
        elif now_s - self._asked_s > self._blocked_s:
            raise UserError(
                f"the function {self._name} has kept its event loop busy for "
                f"{now_s - self._asked_s:.0f} s, so nothing else could be answered or time out; "
                "let it await what takes long: an asynchronous client, await asyncio.sleep(…), or "
                "await asyncio.to_thread(…) for code that blocks"
            )

    # ---- in the thread of the loop

    def _run(self) -> None:
        import uvloop  # for start-up time: most plans make no such calls

        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # also what interrupts a call that does not come back
            self._failed = self._failed or error
        finally:
            self._opened.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        try:
            if (opens := getattr(self._function, "open", None)) is not None:
                await asyncio.wait_for(_Steps(opens(), self._payload), OPEN_S)
        except BaseException as error:
            self._failed = error
            return
        self._opened.set()
        await self._stopped.wait()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_S / 2)
        if (closes := getattr(self._function, "close", None)) is not None:
            with suppress(Exception):  # what it kept is gone with the task
                await asyncio.wait_for(_Steps(closes(), self._payload), CLOSE_S / 2)

    def _stop(self) -> None:
        self._stopped.set()

    def _ring(self) -> None:
        self._timer = None
        self._turn()

    def _turn(self) -> None:
        """Time has passed, or there are new requests."""
        with self._lock:
            self._asked_s = None
            self._follow(self._requests.at(self._now_us()))

    def _ended(self, number: int, attempt: int, task: asyncio.Task[Outcome]) -> None:
        outcome: Outcome = Failure("was cancelled by something in it")
        if not task.cancelled():
            outcome = task.result()
        with self._lock:
            if self._tasks.get(number) is task:
                del self._tasks[number]
            self._follow(self._requests.ended(number, attempt, outcome, self._now_us()))

    def _follow(self, effects: list[Effect]) -> None:
        """Begin and cancel attempts; the lock is held."""
        assert self._loop is not None
        for effect in effects:
            number, attempt = effect.number, effect.attempt
            if isinstance(effect, Begin):
                task = self._loop.create_task(self._attempt(*self._arguments[number]))
                self._tasks[number] = task
                task.add_done_callback(partial(self._ended, number, attempt))
            else:
                self._tasks[number].cancel()
        if self._requests.has_done and self._tokens.empty():
            self._tokens.put(None)
        due_us = self._requests.next_due_us()
        if due_us is None or (self._timer is not None and self._timer_us <= due_us):
            return  # a timer that rings too early only looks
        if self._timer is not None:
            self._timer.cancel()
        wait_s = max(0.0, (due_us - self._now_us()) / 1e6)
        self._timer, self._timer_us = self._loop.call_later(wait_s, self._ring), due_us

    async def _attempt(self, argument: Any, n_rows: int) -> Outcome:
        try:
            called = self._function(argument)
            if not isawaitable(called):
                return Failure("is not asynchronous; write: async def", retries=False)
            steps = called if isinstance(called, Coroutine) else _awaited(called)
            return Answer(self._read(await _Steps(steps, self._payload), n_rows))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # it is the user's, also a SystemExit
            return failure_of(error)

    def _now_us(self) -> int:
        return int(self._clock() * 1e6)


async def _awaited(given: Awaitable[Any]) -> Any:
    return await given


class _Steps:
    """Awaits a user's coroutine; each step of it is a watched call."""

    def __init__(self, given: Coroutine[Any, Any, Any], payload: bytes) -> None:
        self._given, self._payload = given, payload

    def __await__(self) -> Generator[Any, Any, Any]:
        given = self._given
        thrown: BaseException | None = None
        while True:
            with watched(self._payload):
                try:
                    waits_for = given.send(None) if thrown is None else given.throw(thrown)
                except StopIteration as end:
                    return end.value
            thrown = None
            try:
                yield waits_for
            except BaseException as error:  # such as a cancellation
                thrown = error
