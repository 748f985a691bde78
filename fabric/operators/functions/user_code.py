"""Users' code while it runs: who watches it, what interrupts it, and what it raised, in words.

One job: `watched`, around everything that runs a user's code, and `said`, class and text of what
that raised, of bounded length, whatever its own methods do, with the line of the user's code. A
process made for such code names its watcher by `watch_with`; elsewhere `interrupt` can end a call.
"""

from __future__ import annotations

import ctypes
import hashlib
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Protocol

from fabric.errors import CancelledError

CHARS_MAX, FRAMES_MAX = 2000, 100
_NOT_THEIRS = (
    str(Path(__file__).parents[2]), *(sysconfig.get_path(at) for at in ("stdlib", "purelib")),
)  # fmt: skip


def said(error: BaseException) -> str:
    """The class and text of `error`, and its place where that is known.

    >>> said(ValueError("no")), said(KeyboardInterrupt())
    ('ValueError: no', 'KeyboardInterrupt')
    """
    kind = type(error).__name__
    try:
        text = str(error)
    except BaseException as another:  # its `__str__` is the user's, too
        text = f"(its text can't be made: {type(another).__name__})"
    if len(text) > CHARS_MAX:
        text = f"{text[:CHARS_MAX]}… ({len(text)} characters)"
    return (f"{kind}: {text}" if text else kind) + _place(error)


def _place(error: BaseException) -> str:
    frames = islice(walk_tb(error.__traceback__), FRAMES_MAX)  # one raised again and again has many
    theirs = [(frame, line) for frame, line in frames if _is_theirs(frame)]
    if not theirs:
        return ""
    frame, line = theirs[-1]
    return f" (line {line} of {Path(frame.f_code.co_filename).name})"


def _is_theirs(frame: FrameType) -> bool:
    """Compiled modules name files by where they were built, notebooks and shells in brackets."""
    name = frame.f_code.co_filename
    return name.startswith(("/", "<")) and not name.startswith(("<frozen", *_NOT_THEIRS))


class Watcher(Protocol):
    """Is told of every call; any thread may tell it."""

    def begin(self, function: int) -> int:
        """A call of `function` begins; returns what `end` takes."""

    def end(self, line: int) -> None:
        """That call returned, or raised."""


class InterruptedCallError(BaseException):
    """Raised in a user's code; not an `Exception`, so that its own handlers leave it alone."""


class _NothingError(BaseException):
    pass


_watcher: Watcher | None = None
_lock = threading.Lock()
_depths: dict[int, int] = {}
"""How many calls each thread is in."""
_interrupted: set[int] = set()
"""Threads in which an error was raised that may not have come yet."""


def watch_with(watcher: Watcher | None) -> None:
    """From now on tell `watcher`, for the whole process."""
    global _watcher
    _watcher = watcher


@lru_cache(maxsize=1024)
def number_of(payload: bytes) -> int:
    """The number by which a function is told, the same in every process; never 0."""
    return int.from_bytes(hashlib.sha256(payload).digest()[:8], "little") | 1


@contextmanager
def watched(payload: bytes) -> Iterator[None]:
    """Around one call of the function that was pickled as `payload`."""
    if (watcher := _watcher) is None:
        thread_id = threading.get_ident()
        _depths[thread_id] = _depths.get(thread_id, 0) + 1
        try:
            try:
                yield
            finally:
                _leave(thread_id)
        except InterruptedCallError:
            _leave(thread_id)  # again: it may have come just now
            raise CancelledError("the function was interrupted: its task was cancelled") from None
        return
    line = watcher.begin(number_of(payload))
    try:
        yield
    finally:
        watcher.end(line)


def interrupt(thread_id: int) -> None:
    """Raise `InterruptedCallError` in the call that a thread is in, if it is in one.

    It comes when the thread's next line of Python runs, so never where C code hangs.
    """
    with _lock:
        if thread_id in _depths:
            _interrupted.add(thread_id)
            raise_in(thread_id, InterruptedCallError)


def raise_in(thread_id: int, error: type[BaseException]) -> None:
    """Raise in another thread, or in this one, instead of what has not been raised there yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(error))


def raise_nothing() -> None:
    """Have nothing come any more that was to be raised in this thread.

    To ask CPython 3.11 for nothing leaves its bell ringing: later code is slower, and stands still
    where somebody traces it. So something else comes instead, here.
    """
    with suppress(_NothingError):
        raise_in(threading.get_ident(), _NothingError)
        while True:
            pass


def _leave(thread_id: int) -> None:
    with _lock:
        if (depth := _depths.pop(thread_id, 1) - 1) > 0:
            _depths[thread_id] = depth  # one call in another: the outer one goes on
        elif thread_id in _interrupted:
            _interrupted.discard(thread_id)
            raise_nothing()
