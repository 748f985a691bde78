"""Counts and conditions over all rows: count, count_if, count_distinct, bool_and, bool_or.

One job: their forms. A count is never null; the others are null where no value is.
"""

from __future__ import annotations

from collections.abc import Mapping

import datafusion
import pyarrow as pa
from datafusion import functions as f

from fabric.operators.fragment.aggregates.parts import I64, Bound, Build, Form, Found, Part
from fabric.operators.fragment.keys import normalised
from fabric.plan.schema import type_of


def total(value: datafusion.Expr) -> datafusion.Expr:
    """The sum of counts."""
    return f.sum(value)


def counted(value: datafusion.Expr) -> datafusion.Expr:
    """How many values are not null."""
    return f.count(value)


def rows_of(bound: Bound) -> Part:
    """The part that counts rows."""
    return Part("count", datafusion.lit(1), I64, counted, "rows")


def count_of(_: Bound, found: Found) -> datafusion.Expr:
    """The count; 0 where no state came."""
    return f.coalesce(found["count"], datafusion.lit(0))


def count_states(bound: Bound, found: Found) -> Mapping[str, datafusion.Expr]:
    """The count as a state."""
    return {"count": count_of(bound, found)}


def _count(bound: Bound) -> list[Part]:
    if bound.agg.input is None:
        return [rows_of(bound)]
    has = type_of(bound.agg.input, bound.source.schema)
    return [bound.part("count", counted, dtype=has)]


def _count_if(bound: Bound) -> list[Part]:
    condition = bound.value().cast(pa.bool_())
    value = f.when(condition, datafusion.lit(1)).otherwise(datafusion.lit(pa.scalar(None, I64)))
    return [bound.part("count", counted, dtype=I64, value=value, tag="if")]


def _count_distinct(bound: Bound) -> list[Part]:
    value = normalised(bound.value(), bound.type())
    return [bound.part("count", distinct, value=value, tag="same")]


def distinct(value: datafusion.Expr) -> datafusion.Expr:
    """With a filter that changes nothing: without one DataFusion takes a constant's distinct count
    from statistics, which say 1 for null and for no rows."""
    return f.count(value, distinct=True, filter=value.is_not_null())


def _merged_counts(bound: Bound) -> list[Part]:
    return [bound.merging("count", total)]


def _every(value: datafusion.Expr) -> datafusion.Expr:
    return f.bool_and(value)


def _some(value: datafusion.Expr) -> datafusion.Expr:
    return f.bool_or(value)


def _logic(kind: str, build: Build) -> Form:
    return Form(
        rows=lambda bound: [bound.part(kind, build, dtype=pa.bool_())],
        merged=lambda bound: [bound.merging(kind, build)],
        states=lambda _, found: {kind: found[kind]},
        result=lambda _, found: found[kind],
    )


FORMS = {
    "count": Form(_count, count_of, _merged_counts, count_states),
    "count_if": Form(_count_if, count_of, _merged_counts, count_states),
    "count_distinct": Form(_count_distinct, count_of),
    "bool_and": _logic("all", _every),
    "bool_or": _logic("any", _some),
}
