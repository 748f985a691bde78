"""Footers of Parquet files, read once for as long as a file stays what it is.

One job: `footer`. A query asks for a file's footer several times, and so does the next one. A file
is known again by its place on the disk, its length and the times of its last changes; one changed
moments ago is not remembered, since clocks of file systems are coarse.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

import pyarrow as pa
import pyarrow.parquet as pq

from fabric.io import regular

Identity = tuple[int, ...]

_N_BYTES_MAX = 16 << 20
"""Of all footers together, as they lie on disk."""

_SETTLED_NS = 2_000_000_000
"""No file system's clock is coarser."""


@dataclass(slots=True, eq=False)
class Footer:
    """What a footer says. `native`: its types as DataFusion reads them, once it was asked."""

    metadata: pq.FileMetaData
    schema: pa.Schema
    native: pa.Schema | None = None


class Footers:
    """Those read last, up to `n_bytes_max`; threads may share it."""

    def __init__(self, n_bytes_max: int = _N_BYTES_MAX) -> None:
        self._n_bytes_max, self._n_bytes = n_bytes_max, 0
        self._known: OrderedDict[str, tuple[Identity, Footer]] = OrderedDict()
        self._lock = Lock()

    def of(self, path: str) -> Footer:
        """The footer of a file as it is now; raises what pyarrow and the system do."""
        identity = _identity(path)
        with self._lock:
            known = self._known.get(path)
            if known is not None and known[0] == identity:
                self._known.move_to_end(path)
                return known[1]
        with regular.opened(path) as data, pq.ParquetFile(data) as file:
            found = Footer(file.metadata, file.schema.to_arrow_schema())
        if identity is not None and time.time_ns() - max(identity[-2:]) > _SETTLED_NS:
            self._keep(path, identity, found)
        return found

    def _keep(self, path: str, identity: Identity, found: Footer) -> None:
        with self._lock:
            before = self._known.pop(path, None)
            self._known[path] = identity, found
            self._n_bytes += _n_bytes(found) - (0 if before is None else _n_bytes(before[1]))
            while self._n_bytes > self._n_bytes_max:
                _, (_, oldest) = self._known.popitem(last=False)
                self._n_bytes -= _n_bytes(oldest)


def _identity(path: str) -> Identity | None:
    """What changes when the file does; None where the system knows no such file."""
    try:
        found = os.stat(path)
    except OSError:
        return None  # reading tells what is wrong
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _n_bytes(footer: Footer) -> int:
    return int(footer.metadata.serialized_size)


_FOOTERS = Footers()


def footer(path: str) -> Footer:
    """The footer of a file as it is now, from memory where it has not changed."""
    return _FOOTERS.of(path)
