"""Aggregates: count, count_distinct, sum, min, max, mean.

One job: what they return, and the state a partial aggregate sends. An int64 sum carries a float sum
beside it, by which the final step sees that it has wrapped; count_distinct has no partial form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.faults import ArgumentFault
from fabric.plan.functions.registry import wrong_type
from fabric.plan.types import bounded, is_comparable, is_groupable, numeric, plain

State = tuple[str, pa.DataType]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate function: the type it returns and the state columns of its partial form."""

    name: str
    result: Callable[[pa.DataType], pa.DataType]
    states: Callable[[pa.DataType], tuple[State, ...]]
    doc: str


def _number(name: str, dtype: pa.DataType) -> pa.DataType:
    number = pa.float64() if t.is_null(plain(dtype)) else numeric(dtype)
    if number is None:
        raise wrong_type(name, 0, dtype, "numbers", pa.float64())
    return number


def _sum(dtype: pa.DataType) -> pa.DataType:
    number = _number("sum", dtype)
    if t.is_decimal(number):
        return bounded(number.precision + 10, number.scale)
    return pa.int64() if t.is_integer(number) else pa.float64()


def _mean(dtype: pa.DataType) -> pa.DataType:
    number = _number("mean", dtype)
    if t.is_decimal(number):
        return bounded(number.precision + 4, number.scale + 4)
    return pa.float64()


def _extreme(name: str) -> Callable[[pa.DataType], pa.DataType]:
    def result(dtype: pa.DataType) -> pa.DataType:
        if not is_comparable(dtype):
            raise wrong_type(name, 0, dtype, "single values", None)
        return plain(dtype)

    return result


def _count(_: pa.DataType) -> pa.DataType:
    return pa.int64()


def _count_distinct(dtype: pa.DataType) -> pa.DataType:
    if not is_groupable(dtype):
        raise wrong_type("count_distinct", 0, dtype, "values that can be compared", None)
    return pa.int64()


def _sum_states(dtype: pa.DataType) -> tuple[State, ...]:
    total = ("sum", _sum(dtype))
    if plain(dtype).equals(pa.int64()):
        return (total, ("sum_f64", pa.float64()))
    return (total,)


def _mean_states(dtype: pa.DataType) -> tuple[State, ...]:
    number = _number("mean", dtype)
    total = _sum(number) if t.is_decimal(number) else pa.float64()
    return (("sum", total), ("count", pa.int64()))


def _no_states(_: pa.DataType) -> tuple[State, ...]:
    raise ArgumentFault("count_distinct has no partial form; exchange the rows on the keys first")


AGGREGATES = {
    agg.name: agg
    for agg in (
        Aggregate("count", _count, lambda _: (("count", pa.int64()),),
                  "how many values are not null, or how many rows; never null"),
        Aggregate("count_distinct", _count_distinct, _no_states,
                  "how many different values, nulls left out"),
        Aggregate("sum", _sum, _sum_states,
                  "the sum; integers as int64 with overflow an error, floats as float64"),
        Aggregate("min", _extreme("min"), lambda d: (("min", _extreme("min")(d)),), "the smallest"),
        Aggregate("max", _extreme("max"), lambda d: (("max", _extreme("max")(d)),),
                  "the largest; NaN is larger than all numbers"),
        Aggregate("mean", _mean, _mean_states, "the mean as float64, or a decimal of a decimal"),
    )
}  # fmt: skip
"""All aggregates by name."""
