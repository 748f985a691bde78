"""A program that is only to say what it would run.

One job: `dry_run`. Within the block no plan is run: the first time that one is to be, `NotRun` ends
the program there. It is no `Exception`, so no ``except`` of the program takes it for a failure.
Other changes are left out, and noted. Sessions stay open until the block is left: a plan is
explained where it would have run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fabric.clients.session.session import Session
    from fabric.plan.nodes import Plan


class NotRun(BaseException):
    """This would have been run in `session`, None for wherever it may."""

    def __init__(self, plan: Plan, session: Session | None) -> None:
        super().__init__()
        self.plan, self.session = plan, session


@dataclass(slots=True)
class DryRun:
    """One block: what was left out, and what is to be closed at its end."""

    left_out: list[str] = field(default_factory=list)
    closing: list[Callable[[], None]] = field(default_factory=list)


_BLOCKS: list[DryRun] = []


@contextmanager
def dry_run() -> Iterator[DryRun]:
    """In the whole process, for the block.

    >>> from fabric import from_dict
    >>> with dry_run():
    ...     from_dict({"a": [1]}).collect()
    Traceback (most recent call last):
      ...
    fabric.clients.session.dry_run.NotRun
    """
    _BLOCKS.append(DryRun())
    try:
        yield _BLOCKS[-1]
    finally:
        for close in _BLOCKS.pop().closing:
            close()


def may_run(plan: Plan, session: Session | None) -> None:
    """Called before a plan is run: raise `NotRun` in a `dry_run`."""
    if _BLOCKS:
        raise NotRun(plan, session)


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
