"""``import fabric.patterns``: what conditions and measures of ``df.match(…)`` ask."""

from typing import TYPE_CHECKING, Any

from fabric.clients.dataframe.functions import patterns as _patterns
from fabric.clients.dataframe.functions.patterns import *  # noqa: F403
from fabric.clients.dataframe.names import no_function as _no_function

__all__ = _patterns.__all__

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise _no_function("fabric.patterns", name, __all__)
