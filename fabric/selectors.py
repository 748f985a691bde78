"""``import fabric.selectors``: the public names of `fabric.clients.dataframe.selectors`."""

from typing import TYPE_CHECKING, Any

from fabric.clients.dataframe import selectors as _selectors
from fabric.clients.dataframe.selectors import *  # noqa: F403

__all__ = _selectors.__all__

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return getattr(_selectors, name)
