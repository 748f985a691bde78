"""``import fabric.functions``: the public names of `fabric.clients.dataframe.functions`."""

from typing import TYPE_CHECKING, Any

from fabric.clients.dataframe import functions as _functions
from fabric.clients.dataframe.functions import *  # noqa: F403

__all__ = _functions.__all__

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return getattr(_functions, name)
