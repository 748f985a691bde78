"""Parquet files: schema and row groups from the footer, rows page by page.

One job: read Parquet. A unit is a row group. Row groups whose statistics exclude a predicate are
left out (`pruning.py` says when that is exact).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.dataset as ds

from fabric.io import regular
from fabric.io.faults import reading
from fabric.io.files.footers import footer
from fabric.io.files.units import Given, Unit

OPTIONS: dict[str, type] = {}
"""Reader options: none."""
_PAGE_BYTES, _BATCH_ROWS = 1 << 20, 16_384


def check(options: Given) -> None:
    """Nothing to refuse."""


def file_schema(path: str, options: Given) -> pa.Schema:
    """Columns and types from the footer."""
    with reading(path, "Parquet"):
        return footer(path).schema


def units(path: str, options: Given) -> list[Unit]:
    """Row groups with their rows and bytes on disk."""
    with reading(path, "Parquet"):
        found = footer(path).metadata
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
        regular.facts(path)
        return ds.ParquetFileFormat().make_fragment(path, LocalFileSystem(), row_groups=groups)


def read_units(
    path: str, options: Given, schema: pa.Schema, begin: int, end: int
) -> Iterator[pa.RecordBatch]:
    """Rows of row groups `begin` to `end` (0:0 means all) with the columns of `schema`."""
    return read_fragment(fragment(path, begin, end), schema)


def read_fragment(part: ds.ParquetFileFragment, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of the row groups that `part` has, on this thread, with a page a column in memory.

    Arrow's scanner reads ahead, and holds gigabytes of it.
    """
    import pyarrow.parquet as pq

    groups = [group.id for group in part.row_groups]
    with (
        reading(part.path, "Parquet"),
        regular.opened(part.path) as data,
        pq.ParquetFile(data, pre_buffer=False, buffer_size=_PAGE_BYTES) as file,
    ):
        batches = file.iter_batches(
            _BATCH_ROWS, row_groups=groups, columns=schema.names, use_threads=False
        )
        for batch in batches:  # a name with a dot brings others along
            yield batch.select(schema.names)


def pruned(part: ds.ParquetFileFragment, pruning: ds.Expression | None) -> ds.ParquetFileFragment:
    """`part` without the row groups whose statistics exclude `pruning`."""
    if pruning is None:
        return part
    with reading(part.path, "Parquet"):
        return part.subset(pruning, schema=part.physical_schema)
