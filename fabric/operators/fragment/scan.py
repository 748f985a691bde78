"""Splits and stage inputs as DataFusion tables.

One job: choose how rows get into DataFusion. What is in memory, or IPC that fits there, is
registered as it is; Parquet files read whole are scanned by DataFusion itself, which knows their
statistics; row groups go through Arrow's scanner; CSV, other IPC and objects of buckets are
streamed. Rows from
elsewhere (datasets, Flight) are fetched first, because a fragment must not wait inside DataFusion.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TypeVar

import datafusion
import numpy as np
import pyarrow as pa

from fabric._cython.kernels.take import take
from fabric.errors import InternalError
from fabric.io import local_files, sources
from fabric.io.files import parquet
from fabric.io.files.parquet import footer
from fabric.io.files.statistics import pruning_filter
from fabric.io.local_files import reading
from fabric.io.sources.file import is_afar, plain_as_planned
from fabric.operators.expressions.datafusion.lower import column
from fabric.operators.fragment.arrow_dataset import (
    GroupPart,
    Read,
    StreamDataset,
    StreamPart,
    readable,
)
from fabric.operators.fragment.floats import opaque
from fabric.operators.fragment.relation import Names, Output, Relation, select
from fabric.operators.fragment.session import Inputs, StoredRows, n_rows_of
from fabric.operators.fragment.size import LeafSizes, lies_here
from fabric.plan.expr import columns_of
from fabric.plan.nodes import Scan, StageInput
from fabric.plan.schema import schema_of
from fabric.plan.sources import FileSource, MemorySource, Split

T = TypeVar("T")
ReadSplit = Callable[[Scan, Split], Iterator[pa.RecordBatch]]
_NATIVE_FILES_MAX = 16
_NATIVE_PATH = re.compile(r"[A-Za-z0-9_./\-]+\.(parquet|pq)")
"""Others might be taken for patterns or URLs."""


class Tables:
    """The leaves of one fragment, registered with its session."""

    def __init__(
        self,
        session: datafusion.SessionContext,
        inputs: Inputs,
        splits: Mapping[int, Sequence[Split]],
        read: ReadSplit | None,
        *,
        n_partitions: int,
        batch_rows: int,
        check: Callable[[], None],
        bounded: bool = False,
    ) -> None:
        self._session, self._inputs, self._splits, self._read = session, inputs, splits, read
        self._batch_rows, self._check = batch_rows, check
        self.n_partitions = n_partitions
        """Threads that read one table."""
        self._names, self._numbers = Names(), count()
        self.sizes = LeafSizes(inputs, splits)
        self._rows_max: int | None = None
        self.spills = False
        """Whether what is built up may be more than memory has room for."""
        self.is_bounded = bounded
        """Whether to hold no more of a file than what is worked on."""
        self.held: list[int] = []
        """Files that DataFusion reads; to be closed when it has."""
        self.raised: list[Exception] = []
        """What reading raised inside DataFusion, which would only hand on its text."""

    def shortened(self, rows_max: int) -> Tables:
        """The same with some rows of each leaf: of what has arrived at even distances, else the
        first."""
        short = copy(self)
        short._rows_max = rows_max
        return short

    def scan(self, node: Scan) -> Relation:
        """All columns that `node` puts out or filters by."""
        read = self._scan(node)
        return read if self._rows_max is None else read.over(read.df.limit(self._rows_max))

    def _scan(self, node: Scan) -> Relation:
        schema = read_schema(node)
        splits = self._splits_of(node)
        match node.source:
            case FileSource() as source if self.is_bounded or is_afar(source):
                return self._streamed(node, schema, splits)
            case FileSource(format="parquet") as source if plain_as_planned(
                source, node.schema, splits
            ):
                return self._parquet(node, schema, splits)
            case FileSource() if not lies_here(node, splits):
                return self._streamed(node, schema, splits)
        return self.stored(schema, self._rows(node, schema, splits))

    def here(self, node: Scan) -> Iterator[pa.RecordBatch] | None:
        """What `node` puts out, if it needs no query: as it lies in memory or in IPC files."""
        splits = self._splits_of(node)
        names = schema_of(node).names
        match node.source:
            case MemorySource() | FileSource(format="ipc") if names and node.predicate is None:
                pass
            case _:
                return None
        return (
            piece.select(names)
            for batch in self._rows(node, read_schema(node), splits)
            for piece in _pieces(batch, self._batch_rows)
        )

    def stage_input(self, node: StageInput) -> Relation:
        """Rows that arrived over an edge."""
        if node.edge not in self._inputs:
            raise InternalError(f"the fragment was given no input for edge {node.edge}")
        if self._rows_max is not None:
            return self.sampled(node, self._rows_max)
        schema = pa.schema(list(zip(node.schema.names, node.schema.types, strict=True)))
        rows = self._inputs[node.edge]
        if isinstance(rows, StoredRows):
            return self._stored(schema, rows)
        return self.stored(schema, rows)

    def sampled(self, node: StageInput, n_rows_max: int) -> Relation:
        """Rows at even distances among those that arrived, at most `n_rows_max`."""
        schema = pa.schema(list(zip(node.schema.names, node.schema.types, strict=True)))
        batches = self._inputs[node.edge]
        n_all = n_rows_of(batches)
        n_rows = min(n_all, n_rows_max)
        places = ((np.arange(n_rows) + 0.5) * n_all / max(n_rows, 1)).astype(np.int64)
        taken, first = [], 0
        for batch in batches:
            last = first + batch.num_rows
            cuts = np.searchsorted(places, [first, last])
            rows = (places[cuts[0] : cuts[1]] - first).astype(np.uint32)
            columns = [take(column, rows) for column in batch.columns]
            taken.append(pa.RecordBatch.from_arrays(columns, schema=schema))
            first = last
        return self.stored(schema, taken, 1)

    def kept(self, like: Relation, batches: Iterable[pa.RecordBatch], *, ordered: bool) -> Relation:
        """Computed rows of `like`, registered as a table."""
        n_partitions = 1 if ordered else self.n_partitions
        return self.stored(like.schema, batches, n_partitions)

    @contextmanager
    def scratch(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[Relation]:
        """Batches as a table for as long as the context lasts."""
        name = f"t{next(self._numbers)}"
        try:
            yield self.stored(schema, batches, name=name)
        finally:
            self._session.deregister_table(name)

    def sql(self, query: str, frames: Mapping[str, datafusion.DataFrame]) -> datafusion.DataFrame:
        """A query over `frames`, which stand in it as ``{name}``."""
        views = {name: f"t{next(self._numbers)}" for name in frames}
        for name, df in frames.items():
            self._session.register_view(views[name], df)
        return self._session.sql(query.format(**views))

    def _splits_of(self, node: Scan) -> Sequence[Split]:
        if node.scan_id not in self._splits:
            raise InternalError(f"the fragment was given no splits for scan {node.scan_id}")
        return self._splits[node.scan_id]

    def _rows(
        self, node: Scan, schema: pa.Schema, splits: Sequence[Split]
    ) -> Iterator[pa.RecordBatch]:
        local = isinstance(node.source, FileSource | MemorySource)
        wanted = node.limit if node.predicate is None else None
        n_rows = 0
        for split in splits:
            if self._read is None or local:
                batches = sources.read_split(
                    node.source, node.schema, split, schema.names, bounded=self.is_bounded
                )
            else:
                batches = self._read(node, split)
            for batch in batches:
                if wanted is not None and n_rows >= wanted:
                    return
                self._check()
                n_rows += batch.num_rows
                yield batch.select(schema.names)

    def stored(
        self,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        n_partitions: int = 0,
        name: str = "",
    ) -> Relation:
        """A table of batches, cut small without a copy and dealt out in runs of equal rows."""
        inner = tuple(self._names.fresh() for _ in schema)
        renamed = _inner_schema(schema, inner)
        small = [
            _renamed(piece, renamed)
            for batch in batches
            for piece in _pieces(batch, self._batch_rows)
        ]
        name = name or f"t{next(self._numbers)}"
        parts = _dealt(small, n_partitions or self.n_partitions)
        self._session.register_record_batches(name, parts or [[_empty(renamed)]])
        return Relation(self._session.table(name), schema, inner, self._names)

    def _streamed(self, node: Scan, schema: pa.Schema, splits: Sequence[Split]) -> Relation:
        """Rows that are read while the query runs, a partition for every run of splits."""
        given = partial(sources.read_splits, node.source, node.schema)
        hints = {"predicate": node.predicate, "bounded": self.is_bounded}
        runs = _runs(splits, self.n_partitions)
        return self._reads(schema, [partial(given, run, **hints) for run in runs])

    def _stored(self, schema: pa.Schema, rows: StoredRows) -> Relation:
        """Rows that lie on this agent's disk: to read them is to wait for nobody."""

        def columns(
            read: Callable[[], Iterator[pa.RecordBatch]], names: list[str]
        ) -> Iterator[pa.RecordBatch]:
            return (batch.select(names) for batch in read())

        return self._reads(schema, [partial(columns, read) for read in rows.parts()])

    def _reads(self, schema: pa.Schema, reads: Sequence[Read]) -> Relation:
        """What `reads` give, a partition for every run of them."""
        inner = tuple(self._names.fresh() for _ in schema)
        user = dict(zip(inner, schema.names, strict=True))
        renamed = _inner_schema(schema, inner)
        # The session holds `read`, which must not hold these tables: they hold the session.
        check, raised = self._check, self.raised

        def read(run: Sequence[Read], names: list[str]) -> Iterator[pa.RecordBatch]:
            names = names or renamed.names[:1]
            wanted = [user[name] for name in names if name in user]
            part = [renamed.field(name) for name in names]
            try:
                for one in run:
                    for batch in one(wanted):
                        check()
                        yield _renamed(batch, pa.schema(part))
            except Exception as error:
                raised.append(error)
                raise

        runs = _runs(reads, self.n_partitions) or [()]  # DataFusion wants a partition
        parts = [StreamPart(renamed, partial(read, run)) for run in runs]
        name = f"t{next(self._numbers)}"
        self._session.register_dataset(name, StreamDataset(renamed, parts))
        relation = Relation(self._session.table(name), schema, inner, self._names)
        return replace(_opaque(relation), streamed=True)

    def _parquet(self, node: Scan, schema: pa.Schema, splits: Sequence[Split]) -> Relation:
        paths = parquet.whole_files([(split.uri, split.begin, split.end) for split in splits])
        names_fit = all(_NATIVE_PATH.fullmatch(path) for path in paths or ())
        if not (paths and names_fit and len(paths) <= _NATIVE_FILES_MAX and len(schema)):
            return self._parquet_groups(node, schema, splits)
        tables = [self._native(path, schema) for path in paths]
        known = [table for table in tables if table is not None]
        if len(known) < len(tables):
            return self._parquet_groups(node, schema, splits)
        if len(known) == 1:
            return _opaque(self._named(known[0], schema))
        df = known[0].select(*(column(name) for name in schema.names))
        for table in known[1:]:
            df = df.union(table.select(*(column(name) for name in schema.names)))
        return _opaque(self._named(df, schema))

    def _native(self, path: str, schema: pa.Schema) -> datafusion.DataFrame | None:
        """A file as a table, if DataFusion reads the columns of `schema` in their types."""
        with reading(path, "Parquet"):
            known = footer(path)
            self.held.append(local_files.descriptor(path))
        # by its name DataFusion might open a pipe that has just taken its place
        name, opened = f"t{next(self._numbers)}", f"/proc/self/fd/{self.held[-1]}"
        # given the types, DataFusion reads no footer to infer them
        self._session.register_parquet(name, opened, file_extension="", schema=known.native)
        table = self._session.table(name)
        if known.native is None:
            known.native = table.schema()
        return table if _same_types(known.native, schema) else None

    def _parquet_groups(self, node: Scan, schema: pa.Schema, splits: Sequence[Split]) -> Relation:
        pruning = pruning_filter(node.predicate, node.schema)
        parts = []
        for run in _runs(splits, self.n_partitions):
            fragments = [parquet.fragment(split.uri, split.begin, split.end) for split in run]
            parts.append(
                GroupPart(node.schema, [parquet.pruned(part, pruning) for part in fragments])
            )
        name = f"t{next(self._numbers)}"
        self._session.register_dataset(name, StreamDataset(node.schema, parts))
        relation = self._named(self._session.table(name), schema)
        return replace(_opaque(relation), streamed=True)

    def _named(self, df: datafusion.DataFrame, schema: pa.Schema) -> Relation:
        """`df`, which has user names, under internal ones."""
        outputs = [Output(column(field.name), field.name, field.type) for field in schema]
        return select(df, outputs, self._names)


def read_schema(node: Scan) -> pa.Schema:
    """The columns to read, in the order of the source; one where rows are only counted."""
    wanted = set(node.schema.names if node.columns is None else node.columns)
    if node.predicate is not None:
        wanted |= columns_of(node.predicate)
    wanted = wanted or set(node.schema.names[:1])
    return pa.schema([(f.name, f.type) for f in node.schema if f.name in wanted])


def _inner_schema(schema: pa.Schema, inner: Sequence[str]) -> pa.Schema:
    """Internal names; rows without any column get one of nulls, so that they can be counted."""
    if not inner:
        return pa.schema([("rows", pa.null())])
    return pa.schema(list(zip(inner, schema.types, strict=True)))


def _renamed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = list(map(readable, batch.columns)) or [pa.nulls(batch.num_rows)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _pieces(batch: pa.RecordBatch, batch_rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, batch_rows):
        yield batch.slice(start, batch_rows)


def _dealt(batches: list[pa.RecordBatch], n_parts: int) -> list[list[pa.RecordBatch]]:
    """At most `n_parts` runs of about equal rows; no empty ones."""
    total, done = sum(batch.num_rows for batch in batches), 0
    parts: list[list[pa.RecordBatch]] = [[] for _ in range(n_parts)]
    for batch in batches:
        parts[min(n_parts - 1, done * n_parts // total)].append(batch)
        done += batch.num_rows
    return [part for part in parts if part]


def _runs(splits: Sequence[T], n_runs: int) -> list[Sequence[T]]:
    """Splits dealt in turn to at most `n_runs` partitions."""
    return [run for i in range(n_runs) if (run := splits[i::n_runs])]


def _same_types(found: pa.Schema, wanted: pa.Schema) -> bool:
    names = found.names
    return all(f.name in names and found.field(f.name).type.equals(f.type) for f in wanted)


def _opaque(relation: Relation) -> Relation:
    """Float columns hidden from statistics and from filters of others, which read NaN otherwise."""
    if not any(pa.types.is_floating(dtype) for dtype in relation.schema.types):
        return relation
    outputs = [
        Output(opaque(output.expr, output.dtype), output.name, output.dtype)
        for output in relation.outputs()
    ]
    return select(relation.df, outputs, relation.names)
