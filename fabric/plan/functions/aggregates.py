"""Aggregates: from count and sum to corr and quantile.

One job: what they take and return, and the state a partial aggregate sends. An int64 sum carries a
float sum beside it, by which the final step sees that it has wrapped. Moments (var, corr, ...) are
means and sums of squared deviations, which merge without losing digits. An aggregate without states
has no partial form: there the rows themselves travel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.expr import Literal
from fabric.plan.faults import ArgumentFault, arguments_text
from fabric.plan.functions.registry import Arguments, wrong_type
from fabric.plan.types import (
    bounded,
    is_boolean,
    is_comparable,
    is_date,
    is_groupable,
    is_timestamp,
    numeric,
    plain,
)

State = tuple[str, pa.DataType]
Types = tuple[pa.DataType, ...]
States = Callable[[Types], tuple[State, ...]]
_F64, _I64 = pa.float64(), pa.int64()


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate function: its arguments, its type and the state columns of its partial form.

    ``arity`` is (least, most), the input included. `constants` are the indices of arguments that
    must be literals. `states` None means that there is no partial form; else `kinds` are the names
    of all states that it may have. `of_floats` says that it is computed in float64, `spark` is its
    name in Spark's SQL where that means the same; forms of its own are in `clients/spark`.
    """

    name: str
    arity: tuple[int, int]
    rule: Callable[[Arguments], pa.DataType]
    doc: str
    states: States | None = None
    kinds: tuple[str, ...] = ()
    constants: tuple[int, ...] = ()
    of_floats: bool = False
    spark: str = ""

    def result(
        self, *types: pa.DataType, literals: Sequence[Literal | None] | None = None
    ) -> pa.DataType:
        """The type of the answer for arguments of `types`; raises `ArgumentFault`.

        >>> AGGREGATES["sum"].result(pa.int32())
        DataType(int64)
        """
        least, most = self.arity
        if not least <= len(types) <= most:
            if not types:
                raise ArgumentFault(f"{self.name} needs an input; only count goes without")
            wanted = f"{least}" if least == most else f"{least} to {most}"
            raise ArgumentFault(f"{self.name} takes {arguments_text(wanted)}, got {len(types)}")
        given = (None,) * len(types) if literals is None else tuple(literals)
        for index in self.constants if literals is not None else ():
            if index < len(given) and given[index] is None:
                raise ArgumentFault(f"{self.name} needs a constant as argument {index + 1}", index)
        return self.rule(Arguments(self.name, types, given))


def _number(name: str, dtype: pa.DataType, index: int = 0) -> pa.DataType:
    number = _F64 if t.is_null(plain(dtype)) else numeric(dtype)
    if number is None:
        raise wrong_type(name, index, dtype, "numbers", _F64)
    return number


def _sum(args: Arguments) -> pa.DataType:
    number = _number("sum", args.types[0])
    if t.is_decimal(number):
        return bounded(number.precision + 10, number.scale)
    return _I64 if t.is_integer(number) else _F64


def _mean(args: Arguments) -> pa.DataType:
    number = _number("mean", args.types[0])
    if t.is_decimal(number):
        return bounded(number.precision + 4, number.scale + 4)
    return _F64


def _statistic(args: Arguments) -> pa.DataType:
    """All arguments numbers; the answer is a float64."""
    for index, dtype in enumerate(args.types):
        _number(args.name, dtype, index)
    return _F64


INTERPOLATIONS = ("nearest", "linear", "lower", "higher", "midpoint")
"""What a quantile is where it lies between two values."""


def _quantile(args: Arguments) -> pa.DataType:
    _number("quantile", args.types[0])
    _check_fraction(args)
    literal = args.literals[2] if len(args.types) == 3 else None
    if literal is not None and literal.value not in INTERPOLATIONS:
        known = ", ".join(map(repr, INTERPOLATIONS))
        raise ArgumentFault(f"quantile takes one of {known}, got {literal.value!r}", 2)
    return _F64


def _approx_quantile(args: Arguments) -> pa.DataType:
    dtype = plain(args.types[0])
    time = is_date(dtype) or is_timestamp(dtype) or t.is_duration(dtype) or t.is_time(dtype)
    if not time:
        _number("approx_quantile", dtype)
    _check_fraction(args)
    return dtype


def _check_fraction(args: Arguments) -> None:
    """The second argument is a number from 0 to 1."""
    _number(args.name, args.types[1], 1)
    literal = args.literals[1]
    if literal is not None and not (literal.value is not None and 0 <= literal.value <= 1):
        raise ArgumentFault(f"{args.name} takes a fraction from 0 to 1, got {literal.value!r}", 1)


def _comparable(args: Arguments) -> pa.DataType:
    for index, dtype in enumerate(args.types[-1:], len(args.types) - 1):
        if not is_comparable(dtype):
            raise wrong_type(args.name, index, dtype, "single values", None)
    return plain(args.types[0])


def _condition(result: pa.DataType) -> Callable[[Arguments], pa.DataType]:
    def rule(args: Arguments) -> pa.DataType:
        (dtype,) = args.types
        if not (is_boolean(dtype) or t.is_null(plain(dtype))):
            raise wrong_type(args.name, 0, dtype, "true or false", pa.bool_())
        return result

    return rule


def _count(_: Arguments) -> pa.DataType:
    return _I64


def _distinct(args: Arguments) -> pa.DataType:
    (dtype,) = args.types
    if not is_groupable(dtype):
        raise wrong_type(args.name, 0, dtype, "values that can be compared", None)
    return _I64


def _any(args: Arguments) -> pa.DataType:
    return plain(args.types[0])


def _collect(args: Arguments) -> pa.DataType:
    return pa.list_(plain(args.types[0]))


def _sum_states(types: Types) -> tuple[State, ...]:
    total = ("sum", _sum(Arguments("sum", types, (None,))))
    if plain(types[0]).equals(_I64):
        return (total, ("sum_f64", _F64))
    return (total,)


def _mean_states(types: Types) -> tuple[State, ...]:
    number = _number("mean", types[0])
    total = _sum(Arguments("sum", (number,), (None,))) if t.is_decimal(number) else _F64
    return (("sum", total), ("count", _I64))


def _state(kind: str, dtype: pa.DataType | None = None) -> States:
    """A single state, of type `dtype` or that of the input."""
    return lambda types: ((kind, dtype or plain(types[0])),)


def _moments(*kinds: str) -> States:
    """A count, and floats."""
    return lambda _: (("count", _I64), *((kind, _F64) for kind in kinds))


def _row_states(types: Types) -> tuple[State, ...]:
    """A value, and of how many rows: a task without rows must not be asked for one."""
    return (("value", plain(types[0])), ("count", _I64))


def _by_states(types: Types) -> tuple[State, ...]:
    return (("value", plain(types[0])), ("by", plain(types[1])))


def _sample_states(types: Types) -> tuple[State, ...]:
    return (("values", pa.list_(plain(types[0]))), ("count", _I64))


_ONE = ("mean", "m2")
_SHAPE = ("mean", "m2", "m3", "m4")
_TWO = ("mean_x", "mean_y", "m2_x", "m2_y", "c2")


def _statistics(kinds: tuple[str, ...], *named: tuple[str, str, str]) -> tuple[Aggregate, ...]:
    """Aggregates of numbers that share a state: their names, Spark's names and what they are."""
    arity = (2, 2) if kinds is _TWO else (1, 1)
    return tuple(
        Aggregate(name, arity, _statistic, doc, _moments(*kinds), ("count", *kinds),
                  of_floats=True, spark=spark)
        for name, spark, doc in named
    )  # fmt: skip


_COUNT = (_state("count", _I64), ("count",))
_VALUE = (_state("value"), ("value",))

AGGREGATES = {
    agg.name: agg
    for agg in (
        Aggregate("count", (0, 1), _count,
                  "how many values are not null, or how many rows; never null", *_COUNT),
        Aggregate("count_if", (1, 1), _condition(_I64),
                  "for how many rows the condition is true; never null", *_COUNT, spark="count_if"),
        Aggregate("count_distinct", (1, 1), _distinct,
                  "how many different values, nulls left out"),
        Aggregate("approx_distinct", (1, 1), _distinct,
                  "about how many different values (2.3 % off on average), nulls left out",
                  _state("codes", pa.list_(pa.int32())), ("codes",), spark="approx_count_distinct"),
        Aggregate("sum", (1, 1), _sum,
                  "the sum; integers as int64 with overflow an error, floats as float64",
                  _sum_states, ("sum", "sum_f64"), spark="sum"),
        Aggregate("mean", (1, 1), _mean,
                  "the mean as float64, or a decimal of a decimal",
                  _mean_states, ("sum", "count"), spark="avg"),
        Aggregate("min", (1, 1), _comparable, "the smallest", _state("min"), ("min",),
                  spark="min"),
        Aggregate("max", (1, 1), _comparable,
                  "the largest; NaN is larger than all numbers", _state("max"), ("max",),
                  spark="max"),
        Aggregate("min_by", (2, 2), _comparable,
                  "x of a row whose y is smallest; rows without y are left out",
                  _by_states, ("value", "by"), spark="min_by"),
        Aggregate("max_by", (2, 2), _comparable,
                  "x of a row whose y is largest (NaN is); rows without y are left out",
                  _by_states, ("value", "by"), spark="max_by"),
        *_statistics(
            _ONE,
            ("var", "var_samp", "the variance of a sample (n - 1); null of fewer than two values"),
            ("std", "stddev_samp",
             "the standard deviation of a sample (n - 1); null of fewer than two values"),
            ("var_pop", "var_pop", "the variance of all values (n)"),
            ("std_pop", "stddev_pop", "the standard deviation of all values (n)"),
        ),
        *_statistics(
            _SHAPE,
            ("skewness", "skewness",
             "the third standardised moment; null when all values are equal"),
            ("kurtosis", "kurtosis",
             "the fourth standardised moment, less 3; null when all are equal"),
        ),
        *_statistics(
            _TWO,
            ("covar_samp", "covar_samp",
             "the covariance of a sample (n - 1); rows with a null are left out"),
            ("covar_pop", "covar_pop",
             "the covariance of all rows (n); rows with a null are left out"),
            ("corr", "corr",
             "Pearson's correlation; rows with a null are left out; null when all x or "
             "all y are equal"),
        ),
        Aggregate("median", (1, 1), _statistic,
                  "the middle value, or the mean of the two in the middle, as float64",
                  of_floats=True),
        Aggregate("quantile", (2, 3), _quantile,
                  "the exact quantile q (0 to 1) as float64; between two values linear, or as said",
                  constants=(1, 2), of_floats=True),
        Aggregate("approx_quantile", (2, 2), _approx_quantile,
                  "a value of the input about at quantile q (0 to 1)",
                  _sample_states, ("values", "count"), constants=(1,)),
        Aggregate("first", (1, 1), _any,
                  "the value of one row, the first met; null when that row's is",
                  _row_states, ("value", "count"), spark="first"),
        Aggregate("last", (1, 1), _any,
                  "the value of one row, the last met; null when that row's is",
                  _row_states, ("value", "count"), spark="last"),
        Aggregate("any_value", (1, 1), _any,
                  "some value that is not null; null only where there is none", *_VALUE),
        Aggregate("collect", (1, 1), _collect,
                  "the list of all values that are not null, in any order; never null",
                  spark="collect_list"),
        Aggregate("bool_and", (1, 1), _condition(pa.bool_()),
                  "whether all values are true; nulls left out",
                  _state("all", pa.bool_()), ("all",), spark="bool_and"),
        Aggregate("bool_or", (1, 1), _condition(pa.bool_()),
                  "whether any value is true; nulls left out",
                  _state("any", pa.bool_()), ("any",), spark="bool_or"),
    )
}  # fmt: skip
"""All aggregates by name."""
MOMENTS = frozenset(name for name, agg in AGGREGATES.items() if agg.kinds[1:3] == _ONE)
"""Those of the moments of one column."""
CO_MOMENTS = frozenset(name for name, agg in AGGREGATES.items() if agg.kinds[1:] == _TWO)
"""Those of the moments of two columns."""
