"""A program that is only to say what it would run.

One job: `dry_run`. Within the block nothing is submitted: the first time that a plan is to be run,
or something is to be changed, `NotRun` ends the program there. It is no `Exception`, so that no
``except`` of the program takes it for a failure. Sessions stay open until the block is left: a plan
is explained where it would have run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fabric.clients.session.session import Session
    from fabric.plan.nodes import Plan

_BLOCKS: list[list[Callable[[], None]]] = []
"""What is to be done at the end of each block, the innermost last."""


class NotRun(BaseException):
    """This would have been run in `session`; `plan` is None for what is no plan."""

    def __init__(self, plan: Plan | None, session: Session | None) -> None:
        super().__init__()
        self.plan, self.session = plan, session


@contextmanager
def dry_run() -> Iterator[None]:
    """In the whole process, for the block.

    >>> from fabric import from_dict
    >>> with dry_run():
    ...     from_dict({"a": [1]}).collect()
    Traceback (most recent call last):
      ...
    fabric.clients.session.dry_run.NotRun
    """
    _BLOCKS.append([])
    try:
        yield
    finally:
        for close in _BLOCKS.pop():
            close()


def may_run(plan: Plan | None, session: Session | None) -> None:
    """Called before a plan is run, or something changed: raise `NotRun` in a `dry_run`."""
    if _BLOCKS:
        raise NotRun(plan, session)


def is_closed_later(close: Callable[[], None]) -> bool:
    """Whether this is a `dry_run`, at whose end `close` will be called."""
    if _BLOCKS:
        _BLOCKS[-1].append(close)
    return bool(_BLOCKS)
