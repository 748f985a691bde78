"""``import fabric.functions``: the module that ``fabric.functions`` is."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fabric.clients.dataframe.functions import *  # noqa: F403

sys.modules[__name__] = import_module("fabric.clients.dataframe.functions")
