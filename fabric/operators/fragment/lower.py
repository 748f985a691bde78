"""Plan nodes to DataFusion data frames.

One job: walk a fragment bottom up, each shared node once, and lower it; aggregates, joins, sorts
and window functions have files of their own. A shared node whose rows may come out otherwise a
second time (a limit, a float sum) is computed to the end and kept; a cheap one is read twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import datafusion
import numpy as np
import pyarrow as pa
from datafusion import functions as f
from pyarrow import types as t

from fabric.errors import FabricError, InternalError
from fabric.operators.chain import row_by_row
from fabric.operators.fragment.aggregate import lower_aggregate
from fabric.operators.fragment.failure import engine_error
from fabric.operators.fragment.floats import normalised
from fabric.operators.fragment.join import lower_join
from fabric.operators.fragment.over import ROWS_MIN, lower_window
from fabric.operators.fragment.pieces import SAMPLE, Pieces, is_fit
from fabric.operators.fragment.relation import Collect, Output, Relation, select
from fabric.operators.fragment.scan import Tables
from fabric.operators.fragment.size import estimated_rows
from fabric.operators.fragment.sort import lower_sort
from fabric.operators.fragment.sum_bounds import fits
from fabric.operators.match.table import matched
from fabric.operators.row_operators import lengths_of, plain_lists, positions_of
from fabric.plan.expr import output_name
from fabric.plan.node import Unary
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Limit,
    Match,
    Node,
    Scan,
    Select,
    Sort,
    StageInput,
    Union,
    Window,
    WithColumns,
)
from fabric.plan.schema import schema_of
from fabric.plan.top import first_rows
from fabric.plan.types import plain
from fabric.plan.walk import walk

_BLOCKING = Aggregate | Join | Match | Window | Sort | Distinct | Limit


def lower(root: Node, tables: Tables, collect: Collect, pieces: Pieces | None = None) -> Relation:
    """The data frame of `root`; `collect` runs one to the end, for shared nodes."""
    uses = Counter(id(child) for node in walk(root) for child in node.children)
    lowering = _Lowering(tables, root, collect, uses, pieces)
    done: dict[int, Relation] = {}
    for node in walk(root):
        try:
            below = [done[id(child)] for child in node.children]
            relation = lowering.node(node, below)
            relation = replace(
                relation,
                streamed=relation.streamed or any(source.streamed for source in below),
                raises=_raises(node, below),
            )
        except FabricError as error:
            raise error.at(node=node.path) from None
        except Exception as error:  # whatever DataFusion raises: it has no classes of its own
            raise engine_error(error).at(node=node.path) from error
        if uses[id(node)] > 1 and any(isinstance(part, _BLOCKING) for part in walk(node)):
            relation = tables.kept(relation, collect(relation.df), ordered=_is_ordered(node))
        done[id(node)] = relation
    return done[id(root)]


def _is_ordered(node: Node) -> bool:
    return any(isinstance(part, Sort) for part in walk(node))


class _Lowering:
    def __init__(
        self, tables: Tables, root: Node, collect: Collect, uses: Counter[int],
        pieces: Pieces | None,
    ) -> None:  # fmt: skip
        self._tables, self._collect, self._pieces = tables, collect, pieces
        self._rows = estimated_rows(root, tables.sizes.n_rows)
        # first rows are found without sorting all; rows of files are dealt out while they are read
        others = Limit if tables.n_partitions == 1 else Limit | Scan
        self._sorts_here = not any(isinstance(node, others) for node in walk(root))
        self._first = {
            id(node.input): first_rows(node)
            for node in walk(root)
            if isinstance(node, Filter) and uses[id(node.input)] == 1
        }

    def node(self, node: Node, below: list[Relation]) -> Relation:
        """One node over its lowered inputs."""
        match node:
            case Scan():
                return _filtered_scan(node, self._tables.scan(node))
            case StageInput():
                return self._tables.stage_input(node)
            case Filter(predicate=predicate):
                return below[0].filtered(predicate, narrowed=_is_narrowed(node.input))
            case Select() | WithColumns():
                return _project(node, below[0])
            case Aggregate():
                return self._aggregate(node, below[0])
            case Join(left=left, right=right):
                rows = self._rows[id(left)], self._rows[id(right)]
                return lower_join(node, below[0], below[1], rows=rows, sql=self._tables.sql)
            case Window() | Explode():
                return self._widened(node, below[0])
            case Sort():
                here = self._sorts_here and not self._tables.spills
                n_rows = self._rows[id(node.input)] if here else 0.0
                return lower_sort(node, below, self._tables, self._collect, n_rows=n_rows)
            case Limit(n=n, offset=offset):
                return below[0].over(below[0].df.limit(n, offset))
            case Distinct():
                return _distinct(below[0])
            case Union():
                return _union(node, below)
            case _:
                return self._by_operator(node, below)

    def _by_operator(self, node: Node, below: list[Relation]) -> Relation:
        """A step that DataFusion has not, by its operator, over all rows below it."""
        if isinstance(node, Match):
            schema, rows = schema_of(node), below[0].rows(self._collect)
            found = matched(node, rows, schema_of(node.input), schema)
            return self._tables.stored(schema, found)
        if not isinstance(node, Unary) or not node.LOOKS_AT_ROWS:
            raise InternalError(f"{type(node).__name__} can't be inside a fragment")
        batches = row_by_row(node, below[0].rows(self._collect))
        n_partitions = 1 if _is_ordered(node) else self._tables.n_partitions
        return self._tables.stored(schema_of(node), batches, n_partitions)

    def _aggregate(self, node: Aggregate, source: Relation) -> Relation:
        known = fits(node, self._tables.sizes.most, self._tables.sizes.rows_at_most)
        n_rows = self._rows[id(node.input)]
        if self._pieces is not None and is_fit(node, n_rows):
            sample = lower(node.input, self._tables.shortened(SAMPLE), self._collect)
            n_pieces = self._pieces.number(node, sample, n_rows)
            if n_pieces > 1:
                batches = self._pieces.aggregated(node, source, n_pieces, known)
                return self._tables.stored(schema_of(node), batches)
        found = lower_aggregate(node, source, schema_of(node), known)
        return found if node.keys else _one_row(found)

    def _widened(self, node: Window | Explode, source: Relation) -> Relation:
        """The columns of `source` and more."""
        if isinstance(node, Explode):
            return lower_explode(node, source, schema_of(node))
        n_rows = self._rows[id(node.input)]
        first = self._first.get(id(node)) if n_rows >= ROWS_MIN else None
        return lower_window(node, source, self._tables, self._collect, first=first, n_rows=n_rows)


def _raises(node: Node, below: list[Relation]) -> bool:
    """Whether a column of `node`, or of what lies below, can raise."""
    if any(source.raises for source in below):
        return True
    if not isinstance(node, Select | WithColumns):
        return False
    return any(map(below[0].can_raise, node.exprs))


def _is_narrowed(node: Node) -> bool:
    """Whether something below takes rows away."""
    parts = walk(node)
    kinds = Filter | Join | Aggregate | Distinct | Limit
    return any(isinstance(part, kinds) or _is_filtered(part) for part in parts)


def _is_filtered(node: Node) -> bool:
    return isinstance(node, Scan) and node.predicate is not None


def _one_row(relation: Relation) -> Relation:
    """The row of an aggregate without keys, behind a limit that changes nothing.

    DataFusion moves a filter of constants (a volatile one too) below such an aggregate, which puts
    out its row all the same; it moves none below a limit.
    """
    return relation.over(relation.df.limit(1))


def _filtered_scan(node: Scan, read: Relation) -> Relation:
    """The scan's own filter and columns, over all columns that were read."""
    if node.predicate is not None:
        read = read.filtered(node.predicate)
    fields = schema_of(node)
    outputs = [Output(read.column(field.name), field.name, field.type) for field in fields]
    return replace(select(read.df, outputs, read.names), streamed=read.streamed)


def _project(node: Select | WithColumns, source: Relation) -> Relation:
    made = {output_name(expr): expr for expr in node.exprs}
    outputs = []
    for field in schema_of(node):
        given = made.get(field.name)
        expr = source.column(field.name) if given is None else source.expr(given)
        outputs.append(Output(expr, field.name, field.type))
    return select(source.df, outputs, source.names)


def _distinct(source: Relation) -> Relation:
    same = [
        Output(normalised(output.expr, output.dtype), output.name, output.dtype)
        for output in source.outputs()
    ]
    relation = select(source.df, same, source.names)
    return relation.over(relation.df.distinct())


def _union(node: Union, below: list[Relation]) -> Relation:
    """All inputs in the types of the output, stacked by position."""
    fields = schema_of(node)
    parts = []
    for source in below:
        outputs = [
            Output(output.expr, field.name, field.type)
            for output, field in zip(source.outputs(), fields, strict=True)
        ]
        parts.append(select(source.df, outputs, source.names))
    df = parts[0].df
    for part in parts[1:]:
        columns = zip(part.inner, parts[0].inner, strict=True)
        df = df.union(part.df.select(*(datafusion.col(a).alias(b) for a, b in columns)))
    return parts[0].over(df)


def lower_explode(node: Explode, source: Relation, schema: pa.Schema) -> Relation:
    """`node` over `source`; `schema` is what it puts out."""
    index = source.schema.get_field_index(node.column)
    dtype = plain(source.schema.field(index).type)
    lists = source.column(node.column)
    if not t.is_list(source.schema.field(index).type):
        lists = _applied(_as_lists, lists, source.schema.field(index).type, dtype.value_type)
    if node.outer:
        lists = f.when(f.array_length(lists) > datafusion.lit(0), lists).end()
    names = source.names.fresh(), source.names.fresh()
    fields = zip(source.inner, source.schema.types, strict=True)
    kept = [_repeated(name, kind) for name, kind in fields if name != source.inner[index]]
    made = [lists.alias(names[0])]
    if node.position:
        own = pa.list_(dtype.value_type)
        made.append(_applied(_positions, lists, own, pa.int32()).alias(names[1]))
    unnested = names[: len(made)]
    df = source.df.select(*kept, *made).unnest_columns(*unnested, preserve_nulls=node.outer)
    outputs = source.outputs()
    outputs[index] = Output(datafusion.col(names[0]), node.column, schema.field(index).type)
    if node.position:
        outputs.append(Output(datafusion.col(names[1]), node.position, pa.int32()))
    return select(df, outputs, source.names)


def _repeated(name: str, dtype: pa.DataType) -> datafusion.Expr:
    """A column that comes out once for each element.

    DataFusion 55 takes keys of an aggregate below for unique above an unnest too, and then drops
    the elements from a distinct; it does not see through a call.
    """
    same = datafusion.udf(lambda values: values, [dtype], dtype, "immutable", "fabric_repeated")
    return same(datafusion.col(name)).alias(name)


def _applied(
    function: Callable[[pa.Array], pa.Array],
    lists: datafusion.Expr,
    dtype: pa.DataType,
    element: pa.DataType,
) -> datafusion.Expr:
    """`function`, which makes lists of `element`s."""
    name = f"fabric_explode{function.__name__}"
    return datafusion.udf(function, [dtype], pa.list_(element), "immutable", name)(lists)


def _as_lists(lists: pa.Array) -> pa.Array:
    """The same lists in the usual layout."""
    lists = plain_lists(lists)
    return _lists(lists, lists.flatten())


def _positions(lists: pa.Array) -> pa.Array:
    """The places of the elements of each list."""
    return _lists(lists, pa.array(positions_of(lengths_of(lists)), pa.int64()).cast(pa.int32()))


def _lists(like: pa.Array, values: pa.Array) -> pa.Array:
    """`values` in lists as long as those of `like`."""
    offsets = pa.array(np.append(0, np.cumsum(lengths_of(like))), pa.int32())
    return pa.ListArray.from_arrays(offsets, values, mask=like.is_null())
