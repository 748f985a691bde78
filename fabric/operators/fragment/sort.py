"""Sorts: of all rows in one task, and what the tasks of a sort over several do first.

One job: the three phases. "single" sorts by computed key columns, which are dropped afterwards:
by words in memory (`order`) where keys and size allow it, else in DataFusion, which can spill.
"sample" puts out the keys of some rows, "place" finds the range of every row among the samples of
all tasks; the rows then go to the task of their range, which sorts them alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import datafusion
import pyarrow as pa
from pyarrow import types as t

from fabric._cython.kernels.take import take
from fabric.errors import InternalError
from fabric.operators.fragment.floats import normalised
from fabric.operators.fragment.order import has_words, order_of
from fabric.operators.fragment.ranges import Ranges
from fabric.operators.fragment.relation import Collect, Output, Relation, select
from fabric.operators.fragment.scan import Tables
from fabric.plan.nodes import Sort, StageInput
from fabric.plan.nodes.sort import WEIGHT
from fabric.plan.schema import schema_of, type_of
from fabric.plan.types import plain

SAMPLE = 4096
"""Keys that each task shows to all: ranges are then even to a few percent."""


_ROWS_MIN = 65_536
"""Fewer are sorted by DataFusion in one go."""
_BYTES_MAX = 256 << 20
"""More are left to DataFusion: the sorted rows are a second copy."""
_TEXT_BYTES = 24


def lower_sort(
    node: Sort, below: Sequence[Relation], tables: Tables, collect: Collect, *, n_rows: float = 0.0
) -> Relation:
    """`node` over its lowered inputs; `n_rows` is an estimate, 0 when the first rows will do."""
    match node.phase:
        case "sample":
            return _sample(node, tables)
        case "place":
            return _place(node, below[0], _table(below[1], collect))
        case _:
            if _is_fit(node, below[0], tables, n_rows):
                return _by_words(node, below[0], tables, collect)
            return _sorted(node, below[0])


def _is_fit(node: Sort, source: Relation, tables: Tables, n_rows: float) -> bool:
    """Whether all keys are numbers, and the rows many but not too many."""
    if tables.is_bounded and (tables.spills or any(map(_is_text, source.schema.types))):
        return False  # nobody knows how long texts are, and what is sorted here can't spill
    widths = [_width(field.type) for field in source.schema]
    keys = [type_of(key.input, source.schema) for key in node.keys]
    return bool(
        n_rows >= _ROWS_MIN
        and all(map(has_words, keys))
        and widths
        and all(widths)
        and n_rows * sum(widths) <= _BYTES_MAX
    )


def _width(dtype: pa.DataType) -> int:
    """About how many bytes a value has; 0 for types that are not moved here."""
    if has_words(dtype) or t.is_decimal(dtype) or t.is_fixed_size_binary(dtype):
        return max(1, int(dtype.bit_width) // 8)
    return _TEXT_BYTES if _is_text(dtype) else 0


def _is_text(dtype: pa.DataType) -> bool:
    texts = (
        t.is_string, t.is_binary, t.is_large_string, t.is_large_binary, t.is_string_view,
        t.is_binary_view,
    )  # fmt: skip
    return any(is_one(dtype) for is_one in texts)


def _by_words(node: Sort, source: Relation, tables: Tables, collect: Collect) -> Relation:
    """All rows of `source`, put in order here."""
    names = [f'"{name}"' for name in source.inner]
    keys = [source.expr(key.input).alias(source.names.fresh()) for key in node.keys]
    batches = collect(source.df.select(*names, *keys))
    rows = [pa.RecordBatch.from_arrays(b.columns[: len(names)], schema=source.schema)
            for b in batches]  # fmt: skip
    if sum(batch.nbytes for batch in rows) > 2 * _BYTES_MAX:  # texts are longer than thought
        return _sorted(node, tables.kept(source, rows, ordered=False))
    columns = [
        pa.chunked_array([b.column(i) for b in batches], field.type).combine_chunks()
        for i, field in enumerate(batches[0].schema if batches else ())
    ]
    if not columns:
        return tables.kept(source, [], ordered=True)
    order = order_of(columns[len(names) :], node.keys)
    columns = columns[: len(names)]
    del batches, rows

    def blocks() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(order), _ROWS_MIN):
            part = order[start : start + _ROWS_MIN]
            taken = [take(column, part) for column in columns]
            yield pa.RecordBatch.from_arrays(taken, schema=source.schema)

    return tables.kept(source, blocks(), ordered=True)


def _sorted(node: Sort, source: Relation) -> Relation:
    kept = [datafusion.col(name) for name in source.inner]
    keys, order = [], []
    for key in node.keys:
        name, dtype = source.names.fresh(), type_of(key.input, source.schema)
        keys.append(normalised(source.expr(key.input), dtype).alias(name))
        column = datafusion.col(name)
        order.append(column.sort(ascending=not key.descending, nulls_first=not key.nulls_last))
    return source.over(source.df.select(*kept, *keys).sort(*order).select(*kept))


def _sample(node: Sort, tables: Tables) -> Relation:
    """The keys of rows at even distances, and for how many rows each stands."""
    if not isinstance(node.input, StageInput):
        raise InternalError("only rows that have arrived can be sampled")
    rows = tables.sampled(node.input, SAMPLE)
    *keys, weight = schema_of(node)
    stands_for = max(1, int(tables.sizes.n_rows(node.input)) // SAMPLE)
    outputs = [
        Output(rows.expr(key.input), field.name, field.type)
        for key, field in zip(node.keys, keys, strict=True)
    ]
    whole = datafusion.lit(pa.scalar(stands_for, weight.type))
    return select(rows.df, [*outputs, Output(whole, weight.name, weight.type)], rows.names)


def _table(relation: Relation, collect: Collect) -> pa.Table:
    return pa.Table.from_batches(relation.rows(collect), relation.schema)


def _place(node: Sort, source: Relation, samples: pa.Table) -> Relation:
    """The rows and the number of each one's range."""
    ranges = Ranges(samples.drop_columns([WEIGHT]), samples[WEIGHT], node.keys, node.n_ranges)
    types = [plain(type_of(key.input, source.schema)) for key in node.keys]
    find = datafusion.udf(ranges.of, types, pa.int32(), "volatile", "fabric_range")
    keys = [source.expr(key.input).cast(dtype) for key, dtype in zip(node.keys, types, strict=True)]
    field = schema_of(node)[-1]
    made = Output(find(*keys), field.name, field.type)
    return select(source.df, [*source.outputs(), made], source.names)
