"""Helpers for tests of Fabric and of what is built on it: clocks, gates, checksums, whole fabrics.

One job: the names. What starts agents is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fabric.testing.checksum import checksum, rows
from fabric.testing.clock import ManualClock
from fabric.testing.compare import unlike
from fabric.testing.gate import Gate

if TYPE_CHECKING:
    from fabric.testing.embedded import EmbeddedFabric, embedded_pair
    from fabric.testing.local import LocalFabric, local_fabric

_LATE = {
    "EmbeddedFabric": "fabric.testing.embedded",
    "embedded_pair": "fabric.testing.embedded",
    "LocalFabric": "fabric.testing.local",
    "local_fabric": "fabric.testing.local",
}

__all__ = [
    "EmbeddedFabric", "Gate", "LocalFabric", "ManualClock", "checksum", "embedded_pair",
    "local_fabric", "rows", "unlike",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)
