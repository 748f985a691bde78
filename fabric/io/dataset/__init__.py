"""Datasets of this fabric: files with their owners, splits, reading and writing.

The functions here are what `fabric.io.sources` and `fabric.io.sinks` dispatch to.
"""

from fabric.io.dataset.sink import (
    abandon,
    check_target,
    make,
    open_epoch,
    open_sink,
    publish,
    stream_refused,
    take_back,
)
from fabric.io.dataset.source import enumerate_splits, read_split, source_schema

__all__ = [
    "abandon", "check_target", "enumerate_splits", "make", "open_epoch", "open_sink",
    "publish", "read_split", "source_schema", "stream_refused", "take_back",
]  # fmt: skip
