"""Joins in DataFusion.

One job: key expressions in one type on both sides, NaN keys equal, conditions on pairs whose keys
match, and the smaller side as the hash table. DataFusion builds on its left input unless statistics
tell it otherwise; streams have none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Literal

import datafusion
import pyarrow as pa
from datafusion import functions as f
from pyarrow import types as t

from fabric.operators.expressions.arrow.compile import Compiler
from fabric.operators.expressions.datafusion import held, to_datafusion
from fabric.operators.expressions.datafusion.lower import wrapped
from fabric.operators.expressions.predicates import can_raise, filter_expr
from fabric.operators.fragment.floats import normalised
from fabric.operators.fragment.relation import Output, Relation, select
from fabric.plan.expr import Alias, Cast, Column, Expr, columns_of
from fabric.plan.mend import free_name
from fabric.plan.nodes import Join
from fabric.plan.nodes.join import JoinColumn, condition_columns, key_types, output_columns

_How = Literal["inner", "left", "right", "full", "semi", "anti"]
_SWAPPED: dict[str, _How] = {"inner": "inner", "left": "right", "right": "left", "full": "full"}
Sql = Callable[[str, Mapping[str, datafusion.DataFrame]], datafusion.DataFrame]
"""Asks a query over data frames, which stand in it as ``{name}``."""

_VIEWED_ROWS_MIN = 100_000
"""From here on a build side lies outside the caches: strings are gathered as views there, which is
four times as fast as copying each out of its place."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One side: `df` has the columns `inner` (by the user's names in `names`) and the keys `on`."""

    df: datafusion.DataFrame
    names: tuple[str, ...]
    inner: tuple[str, ...]
    on: tuple[str, ...]

    def column(self, name: str) -> datafusion.Expr:
        """The user's column `name`."""
        return datafusion.col(self.inner[self.names.index(name)])


def lower_join(
    node: Join, left: Relation, right: Relation, *, rows: tuple[float, float], sql: Sql
) -> Relation:
    """`node` over both sides, which have about so many `rows`."""
    if set(left.inner) & set(right.inner):
        right = right.renamed()
    swapped = rows[1] < rows[0]
    large = min(rows) >= _VIEWED_ROWS_MIN and node.how in _SWAPPED
    types = key_types(node, left.schema, right.schema)
    read = _read_by_condition(node, left, right)
    one = _side(left, node.left_keys, types, viewed=large and not swapped, kept=read)
    other = _side(right, node.right_keys, types, viewed=large and swapped, kept=read)
    condition = _condition(node, left, right)
    if swapped and node.how in ("semi", "anti") and condition is None:
        joined = _right_half(other, one, node.how, sql)
    elif swapped and node.how in _SWAPPED:
        joined = _joined(other, one, _SWAPPED[node.how], condition)
    elif node.how == "cross":  # a batch comes out for each row of the first
        joined = _joined(*((other, one) if swapped else (one, other)), "inner", condition)
    else:
        joined = _joined(one, other, node.how, condition)
    columns = output_columns(node, left.schema, right.schema)
    found = select(joined, [_output(column, one, other) for column in columns], left.names)
    if node.how == "inner" and node.condition is not None and condition is None:
        return found.filtered(node.condition, narrowed=True)
    return found


def is_fixed(node: Join) -> bool:
    """Whether the hash table is always made of the left side, however large it is."""
    return node.how in ("semi", "anti") and node.condition is not None


def _joined(
    build: _Side, probe: _Side, how: _How, condition: datafusion.Expr | None
) -> datafusion.DataFrame:
    if build.on and condition is None:
        joined: datafusion.DataFrame = build.df.join(
            probe.df,
            left_on=list(build.on),
            right_on=list(probe.on),
            how=how,
            coalesce_duplicate_keys=False,
        )
        return joined
    pairs = zip(build.on, probe.on, strict=True)
    terms = [datafusion.col(a) == datafusion.col(b) for a, b in pairs]
    if condition is not None:
        terms.append(condition)
    on = reduce(and_, terms or [datafusion.lit(True)])
    crossed: datafusion.DataFrame = build.df.join_on(probe.df, on, how=how)
    return crossed


def _right_half(build: _Side, probe: _Side, how: str, sql: Sql) -> datafusion.DataFrame:
    """A semi or anti join that keeps rows of its right input; only SQL has a word for it."""
    pairs = zip(build.on, probe.on, strict=True)
    on = " and ".join(f"build.{a} = probe.{b}" for a, b in pairs)
    kept = ", ".join(f"probe.{name}" for name in probe.inner) or "probe.*"
    query = f"select {kept} from {{build}} build right {how} join {{probe}} probe on {on}"
    return sql(query, {"build": build.df, "probe": probe.df})


def _output(column: JoinColumn, left: _Side, right: _Side) -> Output:
    expr = (right if column.right else left).column(column.source)
    if column.merged is not None:
        expr = f.coalesce(expr.cast(column.dtype), right.column(column.merged).cast(column.dtype))
    return Output(expr, column.name, column.dtype)


def _side(
    side: Relation,
    keys: Sequence[Expr],
    types: Sequence[pa.DataType],
    *,
    viewed: bool,
    kept: frozenset[str],
) -> _Side:
    """The side with each key as a column; with `viewed`, strings but inner columns `kept` as views.

    A key that is a plain column is taken as it is: a second column of it would be copied again.
    """
    columns, inner = [], []
    for field, name in zip(side.schema, side.inner, strict=True):
        expr, found = datafusion.col(name), name
        if viewed and name not in kept and (view := _view(field.type)) is not None:
            found = side.names.fresh()
            expr = expr.cast(view).alias(found)
        columns.append(expr)
        inner.append(found)
    on = []
    for key, dtype in zip(keys, types, strict=True):
        bare = key.input if isinstance(key, Alias) else key
        plain = isinstance(bare, Column) and side.schema.field(bare.name).type.equals(dtype)
        if plain and not t.is_floating(dtype):
            assert isinstance(bare, Column)
            on.append(name := side.inner[side.schema.get_field_index(bare.name)])
            if name not in inner:
                columns.append(datafusion.col(name))
            continue
        on.append(name := side.names.fresh())
        columns.append(normalised(side.expr(Cast(key, dtype)), dtype).alias(name))
    return _Side(side.df.select(*columns), tuple(side.schema.names), tuple(inner), tuple(on))


def _view(dtype: pa.DataType) -> pa.DataType | None:
    if t.is_string(dtype):
        return pa.string_view()
    return pa.binary_view() if t.is_binary(dtype) else None


def _pairs(node: Join, left: Relation, right: Relation) -> tuple[pa.Schema, list[str]]:
    """What the condition sees: its schema, and the inner name of each column."""
    columns = condition_columns(node, left.schema, right.schema)
    sides = ((right if column.right else left) for column in columns)
    inner = [
        side.inner[side.schema.get_field_index(column.source)]
        for side, column in zip(sides, columns, strict=True)
    ]
    return pa.schema([(column.name, column.dtype) for column in columns]), inner


def _read_by_condition(node: Join, left: Relation, right: Relation) -> frozenset[str]:
    if node.condition is None:
        return frozenset()
    schema, inner = _pairs(node, left, right)
    return frozenset(inner[schema.get_field_index(name)] for name in columns_of(node.condition))


def _condition(node: Join, left: Relation, right: Relation) -> datafusion.Expr | None:
    """The condition over pairs of rows; None where it is a filter of the joined rows.

    What can raise must see pairs only. DataFusion moves conditions of an inner join into its sides,
    with the other side's key for one side's; there it becomes a filter after the join. In other
    joins it is a single call that reads both sides, which stays.
    """
    if node.condition is None:
        return None
    schema, inner = _pairs(node, left, right)
    if not can_raise(node.condition, schema):
        lowered = to_datafusion(node.condition, schema, inner)
        moves = left.streamed or right.streamed or left.raises or right.raises
        return held(lowered) if moves else lowered
    if node.how == "inner":
        return None
    lazy = filter_expr(node.condition, schema)
    read = []
    for side in (left, right):
        place = next((i for i, name in enumerate(inner) if name in side.inner), None)
        if place is None and side.inner:  # its only column is the key of the same name
            place = len(inner)
            inner.append(side.inner[0])
            name = free_name(side.schema.names[0], schema.names)
            schema = schema.append(pa.field(name, side.schema.types[0]))
        read += [] if place is None else [place]
    compiled = Compiler(schema).compile(lazy)
    return wrapped(
        lazy, schema, inner, replace(compiled, columns=compiled.columns | frozenset(read))
    )
