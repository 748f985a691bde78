"""Aggregates of many groups, a piece of the groups at a time.

One job: `Pieces`. A hash table of a million groups is larger than a processor's cache, and then
every row waits for memory. Rows are dealt out by a hash of their keys first (5 ns a row), so that
each piece's groups fit the cache; then the pieces are aggregated one after another on each thread.

Worth it only where groups are many, which some rows of the leaves tell, and where these
are cheap to have: nothing that blocks may lie below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import datafusion
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types as t

from fabric._cython.kernels.hash import hash_columns
from fabric._cython.shuffle.partitioner import Partitioner
from fabric.io.sources.file import is_afar
from fabric.operators.fragment.aggregate import lower_aggregate
from fabric.operators.fragment.relation import Relation, select
from fabric.operators.fragment.scan import Tables
from fabric.operators.fragment.sum_bounds import Fit
from fabric.plan.expr import Column, columns_of
from fabric.plan.nodes import Aggregate, Filter, Node, Scan, Select, StageInput, Union, WithColumns
from fabric.plan.schema import schema_of
from fabric.plan.sources import FileSource, MemorySource
from fabric.plan.walk import walk

ROWS_MIN = 1 << 20
GROUPS_MIN = 1 << 16
_PIECE_GROUPS = 1 << 15
_PIECES_MAX = 64
_GROUPS_A_ROW_MAX = 0.7
"""Where hardly a row meets another, dealing out costs more than it saves (a sixth, by six keys)."""
SAMPLE = 1 << 15
_BYTES_MAX = 4 << 30
"""Rows are held once more while they are aggregated."""
_SLICE_ROWS = 4096
_SEED = 1
"""Not that of exchanges: all rows of a task share the first bits of their hash."""

_ROW_WISE = Scan | StageInput | Filter | Select | WithColumns | Union
Take = Callable[[pa.RecordBatch], None]


class Pieces:
    """Runs such aggregates.

    `tables` makes those of a session of one thread. `each` hands over all batches of a data frame;
    `several` runs data frames to their ends, as many at a time as there are threads.
    """

    def __init__(
        self,
        tables: Callable[[], Tables],
        each: Callable[[datafusion.DataFrame, Take], None],
        several: Callable[[Iterator[datafusion.DataFrame]], list[pa.RecordBatch]],
    ) -> None:
        self._tables, self._each, self._several = tables, each, several

    def number(self, node: Aggregate, sample: Relation, n_rows: float) -> int:
        """Into how many pieces to deal out `n_rows`, of which `sample` are some."""
        rows = _narrowed(node, sample)
        hashes: list[NDArray[np.uint64]] = []
        places = [rows.schema.get_field_index(name) for name in _key_names(node)]
        self._each(
            rows.df,
            lambda batch: hashes.append(hash_columns([batch.column(i) for i in places], _SEED)),
        )
        seen = np.concatenate(hashes) if hashes else np.empty(0, np.uint64)
        n_groups = min(n_rows, estimated_groups(len(seen), len(np.unique(seen))))
        if n_groups < GROUPS_MIN or n_groups > _GROUPS_A_ROW_MAX * n_rows:
            return 1
        return min(_PIECES_MAX, 1 << max(1, round(math.log2(n_groups / _PIECE_GROUPS))))

    def aggregated(
        self, node: Aggregate, source: Relation, n_pieces: int, known: Mapping[int, Fit]
    ) -> list[pa.RecordBatch]:
        """The rows of `node` over `source`; what is `known` of its sums."""
        rows = _narrowed(node, source)
        dealt = _Dealt(rows.schema, _key_names(node), n_pieces)
        self._each(rows.df, dealt.take)
        return self._several(self._frames(node, rows.schema, dealt.pieces(), known))

    def _frames(
        self,
        node: Aggregate,
        schema: pa.Schema,
        pieces: Iterable[list[pa.RecordBatch]],
        known: Mapping[int, Fit],
    ) -> Iterator[datafusion.DataFrame]:
        tables = self._tables()
        for piece in pieces:
            made = lower_aggregate(node, tables.stored(schema, piece), schema_of(node), known)
            yield made.df.select(*(f'"{name}"' for name in made.inner))


class _Dealt:
    """Rows dealt out by the hash of `keys`, each piece's in the order in which they came."""

    def __init__(self, schema: pa.Schema, keys: Sequence[str], n_pieces: int) -> None:
        self._schema = schema
        self._partitioner = Partitioner(schema, keys, n_pieces, seed=_SEED)
        self._pieces: list[list[pa.RecordBatch]] = [[] for _ in range(n_pieces)]
        self._waiting: list[pa.RecordBatch] = []
        self._n_waiting, self._n_rows_min = 0, n_pieces * _SLICE_ROWS

    def take(self, batch: pa.RecordBatch) -> None:
        """Put the rows with others, so that each piece gets enough at a time."""
        self._waiting.append(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
        self._n_waiting += batch.num_rows
        if self._n_waiting >= self._n_rows_min:
            self._deal()

    def pieces(self) -> list[list[pa.RecordBatch]]:
        """All pieces that have rows; the last call."""
        if self._waiting:
            self._deal()
        return [piece for piece in self._pieces if piece]

    def _deal(self) -> None:
        waiting = self._waiting
        whole = waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
        self._waiting, self._n_waiting = [], 0
        rows, offsets = self._partitioner.partition(whole)
        bounds = offsets.tolist()
        for piece, begin, end in zip(self._pieces, bounds, bounds[1:], strict=False):
            if end > begin:
                piece.append(rows.slice(begin, end - begin))


def is_fit(node: Aggregate, n_rows: float) -> bool:
    """Whether `node` over about `n_rows` may be computed in pieces: they are many, of plain keys,
    and nothing below them is dear or must be fetched."""
    if n_rows < ROWS_MIN or not node.keys or not all(isinstance(key, Column) for key in node.keys):
        return False
    schema = schema_of(node.input)
    used = _used(node, schema)
    widths = [_width(schema.field(name).type) for name in used]
    if None in widths or n_rows * sum(width or 0 for width in widths) > _BYTES_MAX:
        return False
    return all(isinstance(part, _ROW_WISE) and _is_near(part) for part in walk(node.input))


def estimated_groups(n_rows: int, n_seen: int) -> float:
    """How many groups there are, when `n_rows` random rows show `n_seen`; all about as large.

    >>> [round(estimated_groups(1000, seen)) for seen in (10, 632, 1000)]
    [10, 1000, 1000000]
    """
    low, high = float(n_seen), float(n_rows) ** 2
    for _ in range(60):
        middle = math.sqrt(low * high) if low else 0.0
        expected = middle * -math.expm1(-n_rows / middle) if middle else 0.0
        low, high = (middle, high) if expected < n_seen else (low, middle)
    return high


def _is_near(node: Node) -> bool:
    """Whether a leaf's rows are here, or in files that may be read twice."""
    if not isinstance(node, Scan):
        return True
    match node.source:
        case FileSource(format="parquet" | "ipc") as source:
            return not is_afar(source)
        case MemorySource():
            return True
        case _:
            return False


def _width(dtype: pa.DataType) -> int | None:
    """About how many bytes a value has; None for what can't be dealt out."""
    if t.is_boolean(dtype):
        return 1
    if t.is_primitive(dtype) or t.is_decimal(dtype) or t.is_fixed_size_binary(dtype):
        return int(dtype.bit_width // 8)
    is_text = t.is_string(dtype) or t.is_large_string(dtype)
    return 24 if is_text or t.is_binary(dtype) or t.is_large_binary(dtype) else None


def _key_names(node: Aggregate) -> list[str]:
    return [key.name for key in node.keys if isinstance(key, Column)]


def _used(node: Aggregate, schema: pa.Schema) -> list[str]:
    """The columns that `node` reads; states are found by all their names."""
    if node.phase == "final":
        return list(schema.names)
    names = frozenset().union(*(columns_of(expr) for expr in (*node.keys, *node.aggs)))
    return [name for name in schema.names if name in names]


def _narrowed(node: Aggregate, source: Relation) -> Relation:
    """The columns that `node` reads."""
    used = _used(node, source.schema)
    kept = [output for output in source.outputs() if output.name in used]
    return select(source.df, kept, source.names)
