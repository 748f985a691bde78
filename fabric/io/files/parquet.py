"""Parquet files: schema and row groups from the footer, rows page by page.

One job: read Parquet. A unit is a row group. Row groups whose statistics exclude a predicate are
left out (`statistics.py` says when that is exact).

A query asks for a file's `footer` several times, and so does the next one, so it is read once for
as long as the file stays what it is. A file is known again by its place on the disk, its length and
the times of its last changes; one changed moments ago is not remembered, since clocks of file
systems are coarse. An object of a bucket is known by its tag.

Of an object the columns of a row group are read in a few requests, and nothing of other columns and
row groups.
"""

from __future__ import annotations

import io
import os
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from fabric.io import local_files, object_files
from fabric.io.files import Given, Unit, store_of
from fabric.io.local_files import reading
from fabric.object_urls import is_object_url
from fabric.plan.places import Settings

OPTIONS: dict[str, type] = {}
"""Reader options: none."""
_PAGE_BYTES, _BATCH_ROWS = 1 << 20, 16_384


def check(options: Given) -> None:
    """Nothing to refuse."""


def file_schema(path: str, options: Given) -> pa.Schema:
    """Columns and types from the footer."""
    with reading(path, "Parquet"):
        return footer(path, store_of(options)).schema


def units(path: str, options: Given) -> list[Unit]:
    """Row groups with their rows and bytes on disk."""
    with reading(path, "Parquet"):
        found = footer(path, store_of(options)).metadata
    groups = (found.row_group(i) for i in range(found.num_row_groups))
    return [Unit(group.num_rows, group.total_byte_size) for group in groups]


def whole_files(ranges: Sequence[tuple[str, int, int]]) -> list[str] | None:
    """The files that ranges (path, begin, end) of row groups make up; None when one lacks a part.

    0:0 means all of a file. A file that is there twice is no whole file.
    """
    found: dict[str, list[tuple[int, int]]] = {}
    for path, begin, end in ranges:
        found.setdefault(path, []).append((begin, end))
    return list(found) if all(_is_whole(*item) for item in found.items()) else None


def _is_whole(path: str, ranges: list[tuple[int, int]]) -> bool:
    if ranges == [(0, 0)]:
        return True
    begins, ends = zip(*sorted(ranges), strict=True)
    if 0 in ends or begins != (0, *ends[:-1]):
        return False
    with reading(path, "Parquet"):
        return bool(ends[-1] == footer(path).metadata.num_row_groups)


def fragment(path: str, begin: int, end: int) -> ds.ParquetFileFragment:
    """Row groups `begin` to `end` of a file as a dataset fragment (0:0 means all)."""
    from pyarrow.fs import LocalFileSystem

    groups = list(range(begin, end)) if end else None
    with reading(path, "Parquet"):
        local_files.facts(path)
        return ds.ParquetFileFormat().make_fragment(path, LocalFileSystem(), row_groups=groups)


def read_units(
    path: str, options: Given, schema: pa.Schema, begin: int, end: int
) -> Iterator[pa.RecordBatch]:
    """Rows of row groups `begin` to `end` (0:0 means all) with the columns of `schema`."""
    store = store_of(options)
    return read_groups(path, useful_groups(path, begin, end, store=store), schema, store)


def read_groups(
    path: str, groups: Sequence[int], schema: pa.Schema, store: Settings = ()
) -> Iterator[pa.RecordBatch]:
    """Rows of some row groups, on this thread, with a page a column in memory.

    Arrow's scanner reads ahead, and holds gigabytes of it. Of an object the wanted columns of one
    row group are in memory, as they are stored.
    """
    afar = is_object_url(path)
    with reading(path, "Parquet"):
        known = footer(path, store).metadata if afar else None
        with (
            local_files.opened(path, store=store) as data,
            pq.ParquetFile(
                data, metadata=known, pre_buffer=afar, buffer_size=0 if afar else _PAGE_BYTES
            ) as file,
        ):
            for some in [[group] for group in groups] if afar else [groups]:
                batches = file.iter_batches(
                    _BATCH_ROWS, row_groups=some, columns=schema.names, use_threads=False
                )
                for batch in batches:  # a name with a dot brings others along
                    yield batch.select(schema.names)


def useful_groups(
    path: str, begin: int, end: int, pruning: ds.Expression | None = None, store: Settings = ()
) -> list[int]:
    """The row groups from `begin` to `end` (0:0 means all) whose statistics don't exclude all rows
    by `pruning`."""
    if not is_object_url(path):
        return [group.id for group in pruned(fragment(path, begin, end), pruning).row_groups]
    with reading(path, "Parquet"):
        known = footer(path, store).metadata
        groups = list(range(begin, end or known.num_row_groups))
        if pruning is None:
            return groups
        alone = io.BytesIO()
        known.write_metadata_file(alone)
        part = ds.ParquetFileFormat().make_fragment(pa.py_buffer(alone.getvalue()))
        kept = {group.id for group in part.subset(pruning, schema=part.physical_schema).row_groups}
    return [group for group in groups if group in kept]


def pruned(part: ds.ParquetFileFragment, pruning: ds.Expression | None) -> ds.ParquetFileFragment:
    """`part` without the row groups whose statistics exclude `pruning`."""
    if pruning is None:
        return part
    with reading(part.path, "Parquet"):
        return part.subset(pruning, schema=part.physical_schema)


Identity = tuple[Any, ...]

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
        self._known: OrderedDict[tuple[str, Settings], tuple[Identity, Footer]] = OrderedDict()
        self._lock = Lock()

    def of(self, path: str, store: Settings = ()) -> Footer:
        """The footer of a file as it is now; raises what pyarrow and the system do."""
        identity, place = _identity(path, store), (path, store)
        with self._lock:
            known = self._known.get(place)
            if known is not None and known[0] == identity:
                self._known.move_to_end(place)
                return known[1]
        with local_files.opened(path, store=store) as data, pq.ParquetFile(data) as file:
            found = Footer(file.metadata, file.schema.to_arrow_schema())
        if identity is not None and time.time_ns() - max(identity[-2:]) > _SETTLED_NS:
            self._keep(place, identity, found)
        return found

    def _keep(self, place: tuple[str, Settings], identity: Identity, found: Footer) -> None:
        with self._lock:
            before = self._known.pop(place, None)
            self._known[place] = identity, found
            self._n_bytes += _n_bytes(found) - (0 if before is None else _n_bytes(before[1]))
            while self._n_bytes > self._n_bytes_max:
                _, (_, oldest) = self._known.popitem(last=False)
                self._n_bytes -= _n_bytes(oldest)


def _identity(path: str, store: Settings) -> Identity | None:
    """What changes when the file does; None where the system knows no such file.

    The last two are when it changed, in nanoseconds; of objects nothing but the tag tells.
    """
    if is_object_url(path):
        seen = object_files.facts(path, store)
        at = 0 if seen.e_tag else int(seen.written_at.timestamp()) * 10**9
        return seen.e_tag, seen.size, at, at
    try:
        found = os.stat(path)
    except OSError:
        return None  # reading tells what is wrong
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _n_bytes(footer: Footer) -> int:
    return int(footer.metadata.serialized_size)


_FOOTERS = Footers()


def look_at(paths: Sequence[str], options: Given) -> None:
    """Read the footers of objects that are not known yet, many at once; files are passed over."""
    object_files.for_each(lambda path: file_schema(path, options), filter(is_object_url, paths))


def footer(path: str, store: Settings = ()) -> Footer:
    """The footer of a file as it is now, from memory where it has not changed."""
    return _FOOTERS.of(path, store)
