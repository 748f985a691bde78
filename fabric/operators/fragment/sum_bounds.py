"""How large sums can become: those that can't overflow need no check beside them.

One job: `fits`. A sum is at most the number of rows times the largest value, and values are bounded
by their types, by Parquet's statistics, or by a look at what is in memory (0.5 ns a value, where a
second sum of each group costs 10). Through joins rows multiply at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.expr import (
    Agg,
    Alias,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    Literal,
    children,
    output_name,
)
from fabric.plan.functions.aggregates import CO_MOMENTS
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    Node,
    Scan,
    Select,
    Sort,
    StageInput,
    Union,
    WithColumns,
)
from fabric.plan.nodes.aggregate import unaliased
from fabric.plan.nodes.join import output_columns
from fabric.plan.schema import schema_of, type_of
from fabric.plan.types import numeric, plain

Leaf = Scan | StageInput
_SLACK = 1.0001
"""Bounds are floats; a rounded product is larger than the exact one by less than this."""
_DIGITS_MAX = 38
_INT64_LIMIT = 2.0**63
_NEAR_LIMIT = 2.0**57
"""For rows times the largest value. A float sum of so many products is wrong by at most the number
of rows times 2^-53 times the sum, so by less than 2^61: far from the 2^64 of a sum that wrapped."""
_SUMS = ("sum", "mean")
_FITTED = frozenset((*_SUMS, *CO_MOMENTS))


class Fit(IntEnum):
    """What surely fits its type, of the sums an aggregate is made of."""

    UNKNOWN = 0
    PRODUCTS = 1
    """Products of a pair of integers; sums of these may wrap, and a float sum says how often."""
    SUMS = 2
    """All sums: those of values, or those of products."""


def fits(
    node: Aggregate, leaf_most: Callable[[Leaf, str], float], leaf_rows: Callable[[Leaf], float]
) -> dict[int, Fit]:
    """What is known of `node.aggs`, by index: of sums and means, and of pairs of integers.

    `leaf_most` knows the largest magnitude of a number column of a leaf, `leaf_rows` its exact
    number of rows; each says infinity where it does not know.
    """
    found = {}
    for index, expr in enumerate(node.aggs if node.phase != "final" else ()):
        agg = unaliased(expr)
        if agg.input is None or agg.function not in _FITTED:
            continue
        work = _of_sum if agg.function in _SUMS else _of_pair
        by_type = work(agg, node.input, lambda *_: math.inf, leaf_rows)
        if by_type is None:
            continue
        fit = by_type if by_type is Fit.SUMS else work(agg, node.input, leaf_most, leaf_rows)
        if fit:
            found[index] = fit
    return found


def _of_sum(
    agg: Agg,
    source: Node,
    leaf_most: Callable[[Leaf, str], float],
    leaf_rows: Callable[[Leaf], float],
) -> Fit | None:
    """Whether the sum fits; None where nobody checks."""
    assert agg.input is not None
    limit = _sum_limit(plain(type_of(agg.input, schema_of(source))))
    if not math.isfinite(limit):
        return None
    most = _Most(leaf_most).of(agg.input, source) * _SLACK
    return Fit.SUMS if _rows(source, leaf_rows) * most < limit else Fit.UNKNOWN


def _of_pair(
    agg: Agg,
    source: Node,
    leaf_most: Callable[[Leaf, str], float],
    leaf_rows: Callable[[Leaf], float],
) -> Fit | None:
    """Whether products and their sums fit in 64 bits; None for what is not two integers."""
    schema, pair = schema_of(source), children(agg)
    if not all(t.is_integer(plain(type_of(expr, schema))) for expr in pair):
        return None
    most = max(_Most(leaf_most).of(expr, source) for expr in pair) * _SLACK
    n_rows = _rows(source, leaf_rows)
    if n_rows * most * most < _INT64_LIMIT:
        return Fit.SUMS
    products = most * most < _INT64_LIMIT and n_rows * most < _NEAR_LIMIT
    return Fit.PRODUCTS if products else Fit.UNKNOWN


def _sum_limit(dtype: pa.DataType) -> float:
    """What sums of `dtype` must stay below; infinity for those that nobody checks."""
    number = numeric(dtype)
    if number is None:
        return math.inf
    if t.is_decimal(number):
        return float(10.0 ** (_DIGITS_MAX - number.scale))
    return _INT64_LIMIT if number.equals(pa.int64()) else math.inf


def _rows(node: Node, leaf_rows: Callable[[Leaf], float]) -> float:
    """At most so many rows."""
    below = [_rows(child, leaf_rows) for child in node.children]
    match node:
        case Scan() | StageInput():
            return leaf_rows(node)
        case Filter() | Select() | WithColumns() | Limit() | Sort() | Distinct():
            return below[0]
        case Aggregate():
            return max(below[0], 1.0)
        case Union():
            return sum(below)
        case Join(how="semi" | "anti"):
            return below[0]
        case Join():
            return below[0] * below[1] + below[0] + below[1]
        case _:
            return math.inf


class _Most:
    """The largest magnitude of values."""

    def __init__(self, leaf_most: Callable[[Leaf, str], float]) -> None:
        self._leaf_most = leaf_most

    def of(self, expr: Expr, node: Node) -> float:
        """Of `expr` over the rows of `node`."""
        by_type = _type_limit(plain(type_of(expr, schema_of(node))))
        if not math.isfinite(by_type):
            return math.inf
        return min(by_type, self._computed(expr, node) * _SLACK)

    def _computed(self, expr: Expr, node: Node) -> float:
        match expr:
            case Column(name=name):
                return self._column(name, node)
            case Literal(value=int() | Decimal()):
                return float(abs(expr.value))
            case Alias(input=inner) | Cast(input=inner):
                return self.of(inner, node) + 1.0
            case Call(function="add" | "subtract", args=(a, b)):
                return self.of(a, node) + self.of(b, node)
            case Call(function="multiply", args=(a, b)):
                return self.of(a, node) * self.of(b, node) + 1.0
            case Call(function="negate" | "abs", args=(a,)):
                return self.of(a, node)
            case Case(branches=branches, otherwise=otherwise):
                values = [value for _, value in branches] + [otherwise]
                return max((self.of(v, node) for v in values if not _is_null(v)), default=0.0)
            case _:
                return math.inf

    def _column(self, name: str, node: Node) -> float:
        match node:
            case Scan() | StageInput():
                return self._leaf_most(node, name)
            case Filter(input=source) | Limit(input=source) | Sort(input=source):
                return self.of(Column(name), source)
            case Distinct(input=source):
                return self.of(Column(name), source)
            case Select(input=source, exprs=exprs) | WithColumns(input=source, exprs=exprs):
                made = {output_name(expr): expr for expr in exprs}
                return self.of(made.get(name, Column(name)), source)
            case Union():
                place = schema_of(node).get_field_index(name)
                names = [(schema_of(child).field(place).name, child) for child in node.children]
                return max(self.of(Column(own), child) for own, child in names)
            case Join():
                return self._joined(name, node)
            case _:
                return math.inf

    def _joined(self, name: str, node: Join) -> float:
        columns = output_columns(node, schema_of(node.left), schema_of(node.right))
        for found in columns:
            if found.name == name:
                side = node.right if found.right else node.left
                most = self.of(Column(found.source), side)
                if found.merged is None:
                    return most
                return max(most, self.of(Column(found.merged), node.right))
        return math.inf


def _is_null(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None


def _type_limit(dtype: pa.DataType) -> float:
    """What a value of `dtype` can't pass; infinity for what is no exact number, or null."""
    if t.is_decimal(dtype):
        return float(10.0 ** (dtype.precision - dtype.scale))
    if t.is_integer(dtype):
        return float(2.0**dtype.bit_width)
    return math.inf
