"""Random aggregates whose answer does not depend on the order of rows.

One job: one `Agg`. Sums are only of numbers that add up exactly; rows are asked for a value only
where all of the group have the same, or by what decides it.
"""

from __future__ import annotations

from random import Random

import pyarrow as pa

from fabric.plan.expr import Agg, Column, Expr, Literal
from fabric.plan.functions.aggregates import INTERPOLATIONS
from fabric.plan.types import plain
from tests.support.plans.expressions import Expressions, call, integer

_SUM_REMAINDER = 1_000_003
_MOMENTS = ("var", "std", "var_pop", "std_pop", "skewness", "kurtosis", "median")
_PAIRS = ("corr", "covar_samp", "covar_pop")
_FRACTIONS = (0.0, 0.1, 0.25, 0.5, 0.9, 1.0)


def random_agg(maker: Expressions, same: tuple[str, ...] = (), *, window: bool = False) -> Agg:
    """An aggregate; `same` are columns that have one value in all rows of a group.

    Over a window nothing nested is compared.
    """
    rng = maker.rng
    match rng.randrange(9):
        case 0:
            return Agg("count", None if rng.random() < 0.5 else maker.any(1))
        case 1:
            value = maker.scalar(1) if window else maker.any(1)
            return Agg("count_distinct", value)
        case 2 | 3:
            return Agg(rng.choice(("sum", "mean")), summable(maker))
        case 4 | 5:
            return Agg(rng.choice(("min", "max")), maker.scalar(1))
        case 6:
            return Agg(rng.choice(("bool_and", "bool_or", "count_if")), maker.boolean(1))
        case 7 if same:
            column = Column(rng.choice(same))
            return Agg(rng.choice(("first", "last", "any_value")), column)
        case _:
            return _by(maker)


def close_agg(maker: Expressions, *, window: bool = False) -> Agg:
    """An aggregate whose last digit is open: nothing may compare it."""
    rng = maker.rng
    match rng.randrange(4):
        case 0 | 1:
            return Agg(rng.choice(_MOMENTS), summable(maker))
        case 2:
            return Agg(rng.choice(_PAIRS), summable(maker), (summable(maker),))
        case _:
            fraction = Literal(rng.choice(_FRACTIONS), pa.float64())
            name = "quantile" if window else rng.choice(("quantile", "approx_quantile"))
            rest = _interpolation(rng) if name == "quantile" else ()
            return Agg(name, summable(maker), (fraction, *rest))


def _interpolation(rng: Random) -> tuple[Literal, ...]:
    how = rng.choice((None, *INTERPOLATIONS))
    return () if how is None else (Literal(how, pa.string()),)


def summable(maker: Expressions) -> Expr:
    """Numbers whose sum is exact and fits: cut integers, quarters, short decimals."""
    schema = maker.schema
    short = [n for n in maker.columns("decimal") if plain(schema.field(n).type).precision <= 12]
    choices: list[Expr] = [Column(name) for name in (*sorted(maker.exact), *short)]
    cut = call("modulo", maker.of("integer", 1), integer(_SUM_REMAINDER))
    return maker.rng.choice([cut, *choices])


def _by(maker: Expressions) -> Agg:
    """The value that goes with the least or largest, and is made of it alone."""
    rng = maker.rng
    kind = rng.choice(("integer", "string", "date"))
    by = maker.of(kind, 1)
    return Agg(rng.choice(("min_by", "max_by")), _made_of(rng, kind, by), (by,))


def _made_of(rng: Random, kind: str, value: Expr) -> Expr:
    functions = {"integer": ("bit_count", "is_null"), "string": ("length", "upper"),
                 "date": ("year", "last_day")}  # fmt: skip
    return call(rng.choice(functions[kind]), value)
