"""Rows that DataFusion pulls while it runs, through a dataset of ours.

One job: give `register_dataset` what it asks for without an Arrow dataset behind it. Each fragment
is one partition. DataFusion pushes the filters it can translate into `scanner` and does not apply
them again; `apply` therefore does. They mean Arrow's comparisons, so floats are hidden from it
before (`floats.opaque`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from fabric.io.read_threads import outside

Read = Callable[[list[str]], Iterator[pa.RecordBatch]]


class StreamDataset(ds.Dataset):  # type: ignore[misc]
    """Partitions of rows of one schema; each is read once, when DataFusion asks for it."""

    def __init__(self, schema: pa.Schema, parts: Sequence[Any]) -> None:
        # Arrow's own __init__ refuses; there is no C++ dataset behind this one.
        self._schema, self._parts = schema, list(parts)

    @property
    def schema(self) -> pa.Schema:
        """Columns of all parts."""
        return self._schema

    def get_fragments(self, filter: ds.Expression | None = None) -> Iterator[Any]:
        """The partitions."""
        return iter(self._parts)

    def scanner(self, columns: list[str] | None = None, **_: Any) -> _Scanner:
        """What DataFusion asks for the projected schema; the inherited one would read a null."""
        names = self._schema.names if columns is None else list(columns)
        return _Scanner(self._schema, names, None, lambda _: iter(()))


class StreamPart:
    """One partition: `read` gives the batches of the named columns."""

    def __init__(self, schema: pa.Schema, read: Read) -> None:
        self._schema, self._read = schema, read

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: list[str] | None = None,
        filter: ds.Expression | None = None,
        **_: Any,
    ) -> _Scanner:
        """The rows of `columns` that pass `filter`."""
        names = self._schema.names if columns is None else list(columns)
        return _Scanner(self._schema, names, filter, self._read)


class _Scanner:
    def __init__(
        self, schema: pa.Schema, names: list[str], filter: ds.Expression | None, read: Read
    ) -> None:
        self._schema, self._names, self._filter, self._read = schema, names, filter, read

    @property
    def projected_schema(self) -> pa.Schema:
        return pa.schema([self._schema.field(name) for name in self._names])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        if self._filter is None:
            yield from self._read(self._names)
            return
        for batch in self._read(self._schema.names):
            kept = pa.Table.from_batches([batch]).filter(self._filter).select(self._names)
            yield from kept.to_batches()


class GroupPart:
    """One partition of several Arrow fragments, scanned by Arrow's own threads."""

    def __init__(self, schema: pa.Schema, fragments: Sequence[ds.Fragment]) -> None:
        from pyarrow.fs import LocalFileSystem

        self._dataset = ds.FileSystemDataset(
            list(fragments), schema, ds.ParquetFileFormat(), LocalFileSystem()
        )

    def scanner(self, schema: pa.Schema | None = None, **options: Any) -> _Readable:
        """Arrow's scanner over all of them; they have `schema` already."""
        return _Readable(self._dataset.scanner(**options))


class _Readable:
    """What a scanner gives, each column `readable`."""

    def __init__(self, scanner: ds.Scanner) -> None:
        self._scanner = scanner

    @property
    def projected_schema(self) -> pa.Schema:
        return self._scanner.projected_schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        schema = self.projected_schema
        if not any(_n_offsets(dtype) > 1 for dtype in schema.types):
            yield from self._batches()
            return
        for batch in self._batches():
            yield pa.RecordBatch.from_arrays(list(map(readable, batch.columns)), schema=schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        # Arrow's threads do the reading, and DataFusion's must not wait for them for ever
        return outside(self._scanner.to_batches(), "Parquet files")


def readable(column: pa.Array) -> pa.Array:
    """`column`, copied where DataFusion would panic if it, or a part of it, were a slice."""
    return pa.concat_arrays([column]) if _n_offsets(column.type) > 1 else column


def _n_offsets(dtype: pa.DataType) -> int:
    """How many structs and lists of a fixed length lie in each other."""
    parts = [dtype.field(i).type for i in range(dtype.num_fields)]
    here = int(pa.types.is_struct(dtype) or pa.types.is_fixed_size_list(dtype))
    return here + max(map(_n_offsets, parts), default=0)
