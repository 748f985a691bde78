"""Any Arrow Flight server as a source or target.

The functions here are what `fabric.io.sources` and `fabric.io.sinks` dispatch to.
"""

from fabric.io.flight.sink import abandon, open_epoch, open_sink, publish, take_back
from fabric.io.flight.source import enumerate_splits, read_split, source_schema

__all__ = [
    "abandon", "enumerate_splits", "open_epoch", "open_sink", "publish", "read_split",
    "source_schema", "take_back",
]  # fmt: skip
