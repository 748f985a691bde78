"""Errors as Spark shows them: the last line says what is wrong, without our frames above it.

One job: `plainly`. Spark prints the Python traceback of whatever a data source raises; a
`FabricError` says all its reader needs, so only one frame is left of it. A bug keeps its frames.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from fabric.errors import FabricError

P = ParamSpec("P")
R = TypeVar("R")


def plainly(call: Callable[P, R]) -> Callable[P, R]:
    """`call`, whose `FabricError` comes without the frames and causes below it."""

    @functools.wraps(call)
    def plain(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except FabricError as error:
            raise error.with_traceback(None) from None

    return plain


def plainly_each(call: Callable[P, Iterator[R]]) -> Callable[P, Iterator[R]]:
    """The same for a generator."""

    @functools.wraps(call)
    def plain(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        try:
            yield from call(*args, **kwargs)
        except FabricError as error:
            raise error.with_traceback(None) from None

    return plain
