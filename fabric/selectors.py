"""``import fabric.selectors``: the public names of `clients.dataframe.expressions.selectors`."""

from typing import TYPE_CHECKING, Any

from fabric.clients.dataframe.expressions import selectors as _selectors
from fabric.clients.dataframe.expressions.selectors import *  # noqa: F403

__all__ = _selectors.__all__

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return getattr(_selectors, name)
