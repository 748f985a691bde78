"""``import fabric.selectors``: the module that ``fabric.selectors`` is."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fabric.clients.dataframe.selectors import *  # noqa: F403

sys.modules[__name__] = import_module("fabric.clients.dataframe.selectors")
