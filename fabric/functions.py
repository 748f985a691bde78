"""``import fabric.functions``: the functions of `fabric`, and more under PySpark's names."""

from typing import TYPE_CHECKING, Any

from fabric.clients.dataframe.functions import functions as _functions
from fabric.clients.dataframe.functions import spark as _spark_functions
from fabric.clients.dataframe.functions.functions import *  # noqa: F403
from fabric.clients.dataframe.functions.spark import *  # noqa: F403
from fabric.clients.dataframe.names import no_function as _no_function

__all__ = _functions.__all__ + _spark_functions.__all__

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise _no_function("fabric.functions", name, __all__, _spark_functions.INSTEAD)
