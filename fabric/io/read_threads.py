"""Reads that may never return, on threads of their own.

One job: `outside` and `called`. A read from a mount whose server is gone can't be ended by anybody,
and who made it is lost with it: a thread of the query engine, which all jobs share, or the slot of
a task. So files are read by threads that nobody else needs, and who waits for one gives up in time,
with an error that names the file. A thread that is done waits a moment for the next file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Generic, TypeVar

from fabric.errors import StorageError

T = TypeVar("T")
Work = Callable[[], None]

PATIENCE_S = 60.0
_IDLE_S, _TICK_S = 2.0, 1.0

_lock = Lock()
_idle: list[SimpleQueue[Work]] = []
_patience_s = PATIENCE_S


def be_patient(seconds: float) -> None:
    """From now on a read of this process may take so long."""
    global _patience_s
    _patience_s = seconds


def outside(items: Iterable[T], place: str | Callable[[], str]) -> Outside[T]:
    """What `items` gives, made by a thread of its own, one when it is asked for.

    Raises
    ------
    StorageError
        The next one did not come in time; `place` says what was read.

    >>> list(outside(range(3), "numbers"))
    [0, 1, 2]
    """
    return Outside(items, place)


def called(function: Callable[[], T], place: str) -> T:
    """What `function` returns, which a thread of its own calls; raises what `outside` does.

    >>> called(lambda: 1, "a number")
    1
    """
    (found,) = outside((call() for call in (function,)), place)
    return found


class Outside(Iterator[T], Generic[T]):
    """See `outside`; `close` from the thread that iterates."""

    def __init__(self, items: Iterable[T], place: str | Callable[[], str]) -> None:
        self._items, self._place = items, place
        self._asked: SimpleQueue[bool] = SimpleQueue()
        self._answers: SimpleQueue[tuple[str, T | BaseException | None]] = SimpleQueue()
        self._begun = self._ended = False

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        if not self._begun:
            self._begun = True
            # the thread must not hold this object, whose end is what it waits for
            _start(_serving(self._items, self._asked, self._answers))
        self._asked.put(True)
        kind, answer = self._answer()
        if kind == "item":
            return answer  # type: ignore[return-value]
        self._ended = True
        if isinstance(answer, BaseException):
            raise answer
        raise StopIteration

    def close(self) -> None:
        """Have what is open closed; waits for that, but not for ever."""
        if self._begun and not self._ended:
            self._ended = True
            self._asked.put(False)
            self._answer()
        self._ended = True

    def __del__(self) -> None:
        if self._begun and not self._ended:
            self._asked.put(False)

    def _answer(self) -> tuple[str, T | BaseException | None]:
        """Counts the time in short waits: a process that was stopped meanwhile did not wait."""
        left_s = _patience_s
        while left_s > 0:
            tick_s = min(left_s, _TICK_S)
            try:
                return self._answers.get(timeout=tick_s)
            except Empty:
                left_s -= tick_s
        self._ended = True
        self._asked.put(False)
        place = self._place if isinstance(self._place, str) else self._place()
        raise StorageError(
            f"reading {place} did not go on for {_patience_s:g} s; is what it lies on still there "
            "(a mount whose server is gone, a broken disk)? FABRIC_AGENT_STUCK_S says how long an "
            "agent waits"
        )


def _serving(
    items: Iterable[T],
    asked: SimpleQueue[bool],
    answers: SimpleQueue[tuple[str, T | BaseException | None]],
) -> Work:
    def serve() -> None:
        given = iter(items)
        try:
            while asked.get():
                answers.put(("item", next(given)))
        except StopIteration:
            answers.put(("end", None))
            return
        except BaseException as error:
            answers.put(("end", error))
            return
        if close := getattr(given, "close", None):
            close()
        answers.put(("end", None))

    return serve


def _start(work: Work) -> None:
    """Have a thread that is idle do it, or a new one."""
    with _lock:
        if _idle:
            _idle.pop().put(work)
            return
    given: SimpleQueue[Work] = SimpleQueue()
    given.put(work)
    Thread(target=_work, args=(given,), name="file reader", daemon=True).start()


def _work(given: SimpleQueue[Work]) -> None:
    while True:
        try:
            work = given.get(timeout=_IDLE_S)
        except Empty:
            with _lock:
                if given in _idle:
                    _idle.remove(given)
                    return
            continue  # it was just given something
        work()
        del work  # with what it read
        with _lock:
            _idle.append(given)


os.register_at_fork(after_in_child=_idle.clear)  # no thread is left there
