"""Functions of numbers and bits in DuckDB SQL with Spark's meaning.

One job: the templates and builders of these families. DuckDB raises outside the domain of a
function, Spark answers NaN or null. Not here, because DuckDB has nothing that means the same: expm1
log1p hypot width_bucket bround, shifts to the left or filled with zeros, pmod of decimals.
"""

from __future__ import annotations

from collections.abc import Callable

from pyarrow import types as t

from tests.support.duckdb.call import Args, Builders, Literals, Signature
from tests.support.duckdb.types import type_sql

_NAN = "'nan'::DOUBLE"


def _where(condition: str, value: str) -> str:
    """NaN where the condition does not hold; null stays null."""
    return f"CASE WHEN {condition} THEN {value} WHEN {{0}} IS NOT NULL THEN {_NAN} END"


_FINITE = ("sin", "cos", "tan")
_LOGARITHMS = ("ln", "log10", "log2")
_ANYWHERE = ("cbrt", "exp", "atan", "sinh", "cosh", "tanh", "asinh", "degrees", "radians")
TEMPLATES: dict[str, str] = {
    **{name: f"{name}({{0}})" for name in _ANYWHERE},
    **{name: _where("isfinite({0})", f"{name}({{0}})") for name in _FINITE},
    **{name: f"CASE WHEN {{0}} > 0 THEN {name}({{0}}) END" for name in _LOGARITHMS},
    "sqrt": f"CASE WHEN {{0}} < 0 THEN {_NAN} ELSE sqrt({{0}}) END",
    "asin": _where("abs({0}) <= 1", "asin({0})"),
    "acos": _where("abs({0}) <= 1", "acos({0})"),
    "acosh": _where("{0} >= 1", "acosh({0})"),
    "atanh": _where(
        "abs({0}) <= 1", "CASE WHEN abs({0}) = 1 THEN {0} * 'inf'::DOUBLE ELSE atanh({0}) END"
    ),
    "cot": (
        "CASE WHEN {0} = 0 THEN CASE WHEN signbit({0}) THEN '-inf'::DOUBLE ELSE 'inf'::DOUBLE END "
        f"WHEN isfinite({{0}}) THEN 1 / tan({{0}}) WHEN {{0}} IS NOT NULL THEN {_NAN} END"
    ),
    "sign": "CASE WHEN {0} = 0 OR isnan({0}) THEN {0} ELSE CAST(sign({0}) AS DOUBLE) END",
    "power": (
        f"CASE WHEN isnan({{1}}) OR (isinf({{1}}) AND abs({{0}}) = 1) THEN {{0}} * {_NAN} "
        "ELSE pow({0}, {1}) END"
    ),
    "log": "CASE WHEN {0} > 0 AND {1} > 0 THEN ln({1}) / ln({0}) END",
    "atan2": "atan2({0} + 0.0, {1} + 0.0)",
    "factorial": "CASE WHEN {0} BETWEEN 0 AND 20 THEN CAST(factorial({0}) AS BIGINT) END",
    "bitwise_and": "({0} & {1})",
    "bitwise_or": "({0} | {1})",
    "bitwise_xor": "xor({0}, {1})",
    "bitwise_not": "(~{0})",
    "bit_count": "CAST(bit_count({0}) AS INTEGER)",
}


def _extreme(name: str) -> Callable[[Args, Signature, Literals], str]:
    def build(args: Args, _: Signature, __: Literals) -> str:
        return f"{name}({', '.join(args)})"

    return build


def _pmod(args: Args, types: Signature, _: Literals) -> str:
    a, b = args
    if t.is_decimal(types.result):
        raise ValueError("no SQL for a pmod of decimals")
    wide = f"{a}::HUGEINT" if t.is_integer(types.result) else a
    rest = f"({wide} % {b})"
    value = f"CASE WHEN {rest} < 0 THEN ({rest} + {b}) % {b} ELSE {rest} END"
    if t.is_integer(types.result):
        value = f"CAST({value} AS {type_sql(types.result)})"
    zero = f"{b} = 0 AND {a} IS NOT NULL"
    return f"CASE WHEN {zero} THEN error('division by zero') ELSE {value} END"


def _shift_right(args: Args, types: Signature, _: Literals) -> str:
    return f"({args[0]} >> ({args[1]} & {types.result.bit_width - 1}))"


BUILDERS: Builders = {
    "greatest": _extreme("greatest"),
    "least": _extreme("least"),
    "pmod": _pmod,
    "shift_right": _shift_right,
}
