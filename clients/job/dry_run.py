"""A program that is only to say what it would run.

One job: `dry_run`. Within the block no plan is run: the first time that one is to be, `NotRun` ends
the program there. It is no `Exception`, so no ``except`` of the program takes it for a failure; it
reaches the program even from a library (DuckDB) that makes it an error of its own, and that of a
thread is not printed. Other changes are left out, and noted. Sessions stay open until the block is
left: a plan is explained where it would have run.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fabric.clients.job.host import JobHost
    from fabric.clients.job.stream_name import StreamName
    from fabric.plan.nodes import Plan


class NotRun(BaseException):
    """This would have been run in `session`, None for wherever it may."""

    def __init__(self, plan: Plan, session: JobHost | None, stream: StreamName | None) -> None:
        super().__init__()
        self.plan, self.session, self.stream = plan, session, stream


@dataclass(slots=True)
class DryRun:
    """One block: what was left out, and what is to be closed at its end."""

    left_out: list[str] = field(default_factory=list)
    closing: list[Callable[[], None]] = field(default_factory=list)
    stopped: NotRun | None = None
    """The first, wherever it ended, in a thread, say."""


_BLOCKS: list[DryRun] = []


@contextmanager
def dry_run(program: str = "") -> Iterator[DryRun]:
    """In the whole process, for the block; `program` is the file that is not to go on then.

    >>> from fabric import from_dict
    >>> with dry_run():
    ...     from_dict({"a": [1]}).collect()
    Traceback (most recent call last):
      ...
    fabric.clients.job.dry_run.NotRun
    """
    block = DryRun()
    traced, hook = sys.gettrace(), threading.excepthook
    _BLOCKS.append(block)
    threading.excepthook = lambda told: None if told.exc_type is NotRun else hook(told)
    if program:
        sys.settrace(_stops(block, program))
    try:
        yield block
    finally:
        sys.settrace(traced)
        threading.excepthook = hook
        _BLOCKS.remove(block)
        for close in block.closing:
            close()


def _stops(block: DryRun, program: str) -> Callable[[FrameType, str, Any], Any]:
    """A trace function that gives `program` the `NotRun` that C code made another error of."""

    def in_program(
        frame: FrameType,
        event: str,
        raised: tuple[type[BaseException], BaseException, TracebackType],
    ) -> Any:
        other = event == "exception" and raised[0] not in (NotRun, StopIteration)
        if other and block.stopped is not None:
            here = TracebackType(None, frame, frame.f_lasti, frame.f_lineno)
            raise block.stopped.with_traceback(here)
        return in_program

    return lambda frame, event, _: in_program if frame.f_code.co_filename == program else None


def may_run(plan: Plan, session: JobHost | None, stream: StreamName | None = None) -> None:
    """Called before a plan is run: raise `NotRun` in a `dry_run`.

    `stream` is the name of a stream, and what was asked for with it.
    """
    if _BLOCKS:
        stopped = NotRun(plan, session, stream)
        _BLOCKS[-1].stopped = _BLOCKS[-1].stopped or stopped
        raise stopped


def may_change(what: str) -> bool:
    """Called before anything else is changed; False in a `dry_run`, where it is left out."""
    if _BLOCKS:
        _BLOCKS[-1].left_out.append(what)
    return not _BLOCKS


def is_closed_later(close: Callable[[], None]) -> bool:
    """Whether this is a `dry_run`, at whose end `close` will be called."""
    if _BLOCKS:
        _BLOCKS[-1].closing.append(close)
    return bool(_BLOCKS)
