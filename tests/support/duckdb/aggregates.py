"""Aggregates in DuckDB SQL with Spark's meaning, of a group or over a window.

One job: one form an aggregate. DuckDB's moments raise on NaN, so these are asked for first. Not
here, because DuckDB has nothing that means the same: skewness, kurtosis, approx_distinct.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.types import numeric
from tests.support.duckdb.numbers import quotient, unscaled
from tests.support.duckdb.types import type_sql

_NAN = "'nan'::DOUBLE"


class Rows(NamedTuple):
    """What an aggregate is computed of: SQL and types of its arguments, its constants, its type.

    `over` is the window after each call, empty in a group.
    """

    args: Sequence[str]
    types: Sequence[pa.DataType]
    constants: Sequence[Any]
    result: pa.DataType
    over: str

    def call(self, text: str, where: str = "") -> str:
        """An aggregate call of the rows for which `where` is true."""
        return f"{text}{f' FILTER (WHERE {where})' if where else ''}{self.over}"


def aggregate_form(function: str, rows: Rows) -> str:
    """One aggregate; raises `ValueError` for one that has no translation."""
    if function not in _FORMS:
        raise ValueError(f"no SQL for the aggregate {function}")
    return _FORMS[function](rows)


def _count(rows: Rows) -> str:
    return rows.call(f"count({rows.args[0] if rows.args else '*'})")


def _count_if(rows: Rows) -> str:
    return rows.call("count(*)", rows.args[0])


def _count_distinct(rows: Rows) -> str:
    return rows.call(f"count(DISTINCT {rows.args[0]})")


def _sum(rows: Rows) -> str:
    value = rows.args[0]
    if t.is_floating(rows.result):
        return rows.call(f"sum(CAST({value} AS DOUBLE))")
    return f"CAST({rows.call(f'sum({value})')} AS {type_sql(rows.result)})"


def _mean(rows: Rows) -> str:
    value, result = rows.args[0], rows.result
    if not t.is_decimal(result):
        return rows.call(f"avg(CAST({value} AS DOUBLE))")
    own = numeric(rows.types[0])
    assert own is not None
    shift = 10 ** (result.scale - own.scale)
    total = rows.call(f"sum({unscaled(value, own.scale)})")
    return quotient(f"({total} * {shift}::HUGEINT)", rows.call(f"count({value})"), result)


def _plain(name: str) -> Callable[[Rows], str]:
    def build(rows: Rows) -> str:
        return f"CAST({rows.call(f'{name}({rows.args[0]})')} AS {type_sql(rows.result)})"

    return build


def _by(name: str) -> Callable[[Rows], str]:
    def build(rows: Rows) -> str:
        value, by = rows.args
        return rows.call(f"{name}({value}, {by})", f"{by} IS NOT NULL")

    return build


def _moment(name: str, least: int) -> Callable[[Rows], str]:
    """Null of fewer than `least` rows, NaN when one is not finite."""

    def build(rows: Rows) -> str:
        values = [f"CAST({arg} AS DOUBLE)" for arg in rows.args]
        known = " AND ".join(f"{value} IS NOT NULL" for value in values)
        finite = " AND ".join(f"isfinite({value})" for value in values)
        count = rows.call("count(*)", known)
        odd = rows.call("count(*)", f"{known} AND NOT ({finite})")
        given = ", ".join(f"CASE WHEN {finite} THEN {value} END" for value in values)
        made = rows.call(f"{name}({given})", f"{known} AND {finite}")
        if name == "corr":
            made = f"CASE WHEN NOT isnan({made}) THEN {made} END"
        return f"CASE WHEN {count} < {least} THEN NULL WHEN {odd} > 0 THEN {_NAN} ELSE {made} END"

    return build


def _quantile(rows: Rows) -> str:
    given = rows.constants
    fraction, how = given[0] if given else 0.5, given[1] if len(given) > 1 else "linear"
    value, share = f"CAST({rows.args[0]} AS DOUBLE)", f"{float(fraction)!r}::DOUBLE"
    if how == "linear":
        return rows.call(f"quantile_cont({value}, {share})")
    values = rows.call(f"list({value})", f"{value} IS NOT NULL")
    at = f"((len({values}) - 1) * {share})"
    below, above = (
        f"list_sort({values})[CAST({place} AS BIGINT) + 1]"
        for place in {
            "nearest": [f"floor({at} + 0.5)"] * 2, "lower": [f"floor({at})"] * 2,
            "higher": [f"ceil({at})"] * 2, "midpoint": [f"floor({at})", f"ceil({at})"],
        }[how]
    )  # fmt: skip
    return below if how != "midpoint" else f"(({below}) + ({above})) / 2"


def _collect(rows: Rows) -> str:
    made = rows.call(f"list({rows.args[0]})", f"{rows.args[0]} IS NOT NULL")
    return f"coalesce({made}, CAST([] AS {type_sql(rows.result)}))"


_FORMS: dict[str, Callable[[Rows], str]] = {
    "count": _count,
    "count_if": _count_if,
    "count_distinct": _count_distinct,
    "sum": _sum,
    "mean": _mean,
    "min": _plain("min"),
    "max": _plain("max"),
    "min_by": _by("arg_min_null"),
    "max_by": _by("arg_max_null"),
    "var": _moment("var_samp", 2),
    "std": _moment("stddev_samp", 2),
    "var_pop": _moment("var_pop", 1),
    "std_pop": _moment("stddev_pop", 1),
    "covar_samp": _moment("covar_samp", 2),
    "covar_pop": _moment("covar_pop", 1),
    "corr": _moment("corr", 2),
    "median": _quantile,
    "quantile": _quantile,
    "first": _plain("first"),
    "last": _plain("last"),
    "any_value": _plain("any_value"),
    "collect": _collect,
    "bool_and": _plain("bool_and"),
    "bool_or": _plain("bool_or"),
}
