"""Where a scan reads and where a sink writes: frozen descriptions, no I/O.

One job: name an input or output so that it can travel. Reading and writing is `fabric/io`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

FileFormat = Literal["parquet", "csv", "ipc"]
FileMode = Literal["error", "overwrite"]
DatasetMode = Literal["create", "append", "overwrite"]


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files of one format and one schema; `paths` are absolute and already expanded from globs.

    `options` are reader options as sorted (name, value) pairs, e.g. (("delimiter", ";"),).
    """

    format: FileFormat
    paths: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class MemorySource:
    """A table of the calling process, kept by `fabric.io.memory` under `token`.

    Only embedded agents can read it; a client of a remote fabric uploads it as a dataset first.
    """

    token: str
    n_rows: int


@dataclass(frozen=True, slots=True)
class DatasetSource:
    """A dataset of this fabric (design 4.10); version 0 means the newest at submission."""

    name: str
    version: int = 0


@dataclass(frozen=True, slots=True)
class FlightSource:
    """A stream of any Arrow Flight server: one split an endpoint."""

    uri: str
    path: tuple[str, ...] = ()
    command: bytes = b""
    token: str = field(default="", repr=False)


Source = FileSource | MemorySource | DatasetSource | FlightSource
"""Whatever a scan can read."""


@dataclass(frozen=True, slots=True)
class FileTarget:
    """Write files aside, then rename. `path` is one file when `single`, else a folder of parts."""

    format: FileFormat
    path: str
    single: bool
    mode: FileMode = "error"
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DatasetTarget:
    """Write a dataset of this fabric, hash-partitioned by `keys` (none: round-robin).

    Each partition is written to `replicas` agents; 0: those the dataset has, else 1.
    """

    name: str
    keys: tuple[str, ...] = ()
    n_partitions: int = 0
    mode: DatasetMode = "create"
    replicas: int = 0


@dataclass(frozen=True, slots=True)
class FlightTarget:
    """``do_put`` to any Arrow Flight server under a path descriptor."""

    uri: str
    path: tuple[str, ...]
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class GateTarget:
    """For tests: hold the job at its sink until `fabric.testing` opens gate `name` (a file)."""

    name: str


Target = FileTarget | DatasetTarget | FlightTarget | GateTarget
"""Whatever a sink can write."""


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a source that one task reads alone.

    `uri` is a file path, a memory token or a Flight location; `begin:end` are row groups, record
    batches or rows as the source counts them (0:0 means all); `ticket` is for Flight and datasets.
    `n_rows` and `n_bytes` are estimates, 0 when unknown.
    """

    uri: str
    begin: int = 0
    end: int = 0
    ticket: bytes = b""
    n_rows: int = 0
    n_bytes: int = 0


EMPTY_SCHEMA = pa.schema([])
