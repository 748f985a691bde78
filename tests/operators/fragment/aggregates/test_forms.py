"""Every aggregate: beside plain Python, and the same in phases however the rows are split."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.operators.fragment import execute_fragment
from fabric.operators.fragment.aggregates import FORMS
from fabric.plan.expr import Agg, Alias, Column, Literal
from fabric.plan.functions import AGGREGATES
from fabric.plan.nodes import Aggregate, StageInput
from fabric.plan.schema import schema_of
from tests.support.sampled import SOAK

G, X, Y, B = (Column(name) for name in "gxyb")
Q = Literal(0.3, pa.float64())
SCHEMA = pa.schema([("g", pa.string()), ("x", pa.float64()), ("y", pa.int32()), ("b", pa.bool_())])
Row = tuple[str | None, float | None, int | None, bool | None]
NUMBERS = st.one_of(
    st.none(), st.sampled_from([math.nan, math.inf, -0.0, 0.0, 1e9, 1e9 + 1]),
    st.floats(-1e3, 1e3).map(lambda value: round(value, 3)),
)  # fmt: skip
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["k", "l", None]), NUMBERS, st.none() | st.integers(-9, 9),
        st.none() | st.booleans(),
    ),
    max_size=40,
)  # fmt: skip
ORDERLESS = {"first", "last", "any_value", "collect", "min_by", "max_by"}
"""Any of several answers is right."""


def call(name: str) -> Alias:
    if name in ("count_if", "bool_and", "bool_or"):
        return Alias(Agg(name, B), name)
    if AGGREGATES[name].arity[0] == 2:
        return Alias(Agg(name, X, (Q if "quantile" in name else Y,)), name)
    return Alias(Agg(name, X), name)


def key(value: float) -> tuple[bool, float]:
    """NaN as the largest."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


def moment(values: list[float], power: int) -> float:
    mean = sum(map(Fraction, values)) / len(values)
    return float(sum((Fraction(value) - mean) ** power for value in values))


def odd(values: list[float]) -> bool:
    return not all(map(math.isfinite, values))


def variance(values: list[float], less: int) -> float | None:
    if len(values) <= less:
        return None
    return math.nan if odd(values) else moment(values, 2) / (len(values) - less)


def root(value: float | None) -> float | None:
    return value if value is None else math.sqrt(value)


def shape(values: list[float], power: int) -> float | None:
    if not values:
        return None
    if odd(values):
        return math.nan
    m2, n = moment(values, 2), len(values)
    if not m2:
        return None
    if power == 3:
        return math.sqrt(n) * moment(values, 3) / m2**1.5
    return n * moment(values, 4) / m2**2 - 3


def product(pairs: list[tuple[float, float]]) -> float:
    x, y = ([Fraction(pair[i]) for pair in pairs] for i in (0, 1))
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return float(sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)))


def covariance(pairs: list[tuple[float, float]], less: int) -> float | None:
    if len(pairs) <= less:
        return None
    return math.nan if odd([x for x, _ in pairs]) else product(pairs) / (len(pairs) - less)


def correlation(pairs: list[tuple[float, float]]) -> float | None:
    xs, ys = [x for x, _ in pairs], [float(y) for _, y in pairs]
    if len(pairs) < 2 or (not odd(xs) and not moment(xs, 2)):
        return None
    if odd(xs):
        return math.nan
    bottom = moment(xs, 2) * moment(ys, 2)
    return product(pairs) / math.sqrt(bottom) if bottom else None


def quantile(values: list[float], q: float) -> float | None:
    ordered = sorted(values, key=key)
    if not ordered:
        return None
    place = (len(ordered) - 1) * q
    low, share = ordered[int(place)], place - int(place)
    high = ordered[math.ceil(place)]
    return low if low == high or not share else (1 - share) * low + share * high


def ranked(values: list[float], q: float) -> float | None:
    ordered = sorted(values, key=key)
    return ordered[max(math.ceil(q * len(ordered)), 1) - 1] if ordered else None


ORACLES: dict[str, Callable[[list[Row]], Any]] = {
    "count": lambda rows: len(numbers(rows)),
    "count_if": lambda rows: sum(row[3] is True for row in rows),
    "count_distinct": lambda rows: len({key(value) for value in numbers(rows)}),
    "approx_distinct": lambda rows: len({key(value) for value in numbers(rows)}),
    "sum": lambda rows: sum(numbers(rows)) if numbers(rows) else None,
    "mean": lambda rows: sum(numbers(rows)) / len(numbers(rows)) if numbers(rows) else None,
    "min": lambda rows: min(numbers(rows), key=key, default=None),
    "max": lambda rows: max(numbers(rows), key=key, default=None),
    "var": lambda rows: variance(numbers(rows), 1),
    "std": lambda rows: root(variance(numbers(rows), 1)),
    "var_pop": lambda rows: variance(numbers(rows), 0),
    "std_pop": lambda rows: root(variance(numbers(rows), 0)),
    "skewness": lambda rows: shape(numbers(rows), 3),
    "kurtosis": lambda rows: shape(numbers(rows), 4),
    "covar_samp": lambda rows: covariance(pairs(rows), 1),
    "covar_pop": lambda rows: covariance(pairs(rows), 0),
    "corr": lambda rows: correlation(pairs(rows)),
    "median": lambda rows: quantile(numbers(rows), 0.5),
    "quantile": lambda rows: quantile(numbers(rows), 0.3),
    "approx_quantile": lambda rows: ranked(numbers(rows), 0.3),
    "first": lambda rows: {str(row[1]) for row in rows},
    "last": lambda rows: {str(row[1]) for row in rows},
    "any_value": lambda rows: set(map(str, numbers(rows))) or {"None"},
    "min_by": lambda rows: by(rows, min),
    "max_by": lambda rows: by(rows, max),
    "collect": lambda rows: {str(sorted(map(str, numbers(rows))))},
    "bool_and": lambda rows: all(known(rows)) if known(rows) else None,
    "bool_or": lambda rows: any(known(rows)) if known(rows) else None,
}


def numbers(rows: list[Row]) -> list[float]:
    return [row[1] for row in rows if row[1] is not None]


def known(rows: list[Row]) -> list[bool]:
    return [row[3] for row in rows if row[3] is not None]


def pairs(rows: list[Row]) -> list[tuple[float, float]]:
    return [(row[1], row[2]) for row in rows if row[1] is not None and row[2] is not None]


def by(rows: list[Row], best: Callable[..., int]) -> set[str]:
    some = [row for row in rows if row[2] is not None]
    if not some:
        return {"None"}
    chosen = best(row[2] for row in some)
    return {str(row[1]) for row in some if row[2] == chosen}


def check(name: str, found: object, rows: list[Row]) -> None:
    want = ORACLES[name](rows)
    if name == "collect":
        assert isinstance(found, list)
        assert {str(sorted(map(str, found)))} == want
    elif name == "approx_distinct":  # two of 16,384 registers may be one
        assert isinstance(found, int)
        assert isinstance(want, int)
        assert abs(found - want) <= max(1, want // 10)
    elif name in ORDERLESS:
        assert str(found) in want or (not rows and found is None)
    elif isinstance(want, float):
        scale = max((abs(v) for v in numbers(rows) if math.isfinite(v)), default=0.0)
        assert found == pytest.approx(want, rel=1e-9, abs=1e-12 * scale, nan_ok=True)
    else:
        assert found == want


def table_of(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * 4
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)


def checked(found: pa.Table, rows: list[Row], names: list[str], *, keyed: bool) -> None:
    groups: dict[object, list[Row]] = {} if keyed else {None: []}
    for row in rows:
        groups.setdefault(row[0] if keyed else None, []).append(row)
    assert found.num_rows == len(groups)
    for answer in found.to_pylist():
        for name in names:
            check(name, answer[name], groups[answer.get("g")])


def test_there_is_a_form_for_every_aggregate() -> None:
    assert set(FORMS) == set(AGGREGATES) == set(ORACLES)
    for name, aggregate in AGGREGATES.items():
        assert (FORMS[name].merged is None) == (aggregate.states is None)


@settings(max_examples=40 if SOAK else 20, deadline=None)
@given(rows=ROWS, keyed=st.booleans())
def test_in_one_phase(rows: list[Row], keyed: bool) -> None:
    node = Aggregate(StageInput(0, SCHEMA), (G,) if keyed else (), tuple(map(call, AGGREGATES)))
    batches = table_of(rows).to_batches(max_chunksize=3)
    found = list(execute_fragment(node, {0: batches}, {}, target_partitions=2, batch_rows=8))
    checked(pa.Table.from_batches(found, schema_of(node)), rows, list(AGGREGATES), keyed=keyed)


@settings(max_examples=40 if SOAK else 20, deadline=None)
@given(rows=ROWS, keyed=st.booleans(), cuts=st.lists(st.integers(0, 40), max_size=3))
def test_in_two_phases(
    in_phases: Callable[..., pa.Table], rows: list[Row], keyed: bool, cuts: list[int]
) -> None:
    names = [name for name in AGGREGATES if AGGREGATES[name].states is not None]
    node = Aggregate(StageInput(0, SCHEMA), (G,) if keyed else (), tuple(map(call, names)))
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    parts = [table_of(rows[begin:end]) for begin, end in pairwise(edges)]
    checked(in_phases(node, parts), rows, names, keyed=keyed)


def test_far_from_zero_no_digits_are_lost(in_phases: Callable[..., pa.Table]) -> None:
    values = [1e9 + i / 7 for i in range(50)]
    rows: list[Row] = [("k", value, i % 5, True) for i, value in enumerate(values)]
    names = ["var", "std_pop", "corr", "covar_samp", "skewness", "kurtosis"]
    node = Aggregate(StageInput(0, SCHEMA), (), tuple(map(call, names)))
    (found,) = in_phases(node, [table_of(rows[:20]), table_of(rows[20:])]).to_pylist()
    for name in names:  # sums of squares would be wrong in the first digit
        assert found[name] == pytest.approx(ORACLES[name](rows), rel=1e-6, abs=1e-6)
