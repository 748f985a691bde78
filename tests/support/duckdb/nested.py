"""The functions of lists and structs in DuckDB SQL with Spark's meaning.

One job: their templates. DuckDB's set functions keep no order, so they are spelled by positions; it
skips nulls where Spark answers null, so these are asked for first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyarrow import types as t

from tests.support.duckdb.call import Args, Builders, Literals, Signature, constant
from tests.support.duckdb.types import field_sql, type_sql

_HAS_NULL = "(len({0}) > list_count({0}))"


def _where(known: Sequence[str], sql: str) -> str:
    """`sql`, null where one of `known` is."""
    tests = " OR ".join(f"{part} IS NULL" for part in known)
    return f"CASE WHEN {tests} THEN NULL ELSE {sql} END"


TEMPLATES: dict[str, str] = {
    "list_len": "CAST(len({0}) AS INTEGER)",
    "list_get": "{0}[CASE WHEN {1} >= 0 THEN CAST({1} AS BIGINT) + 1 ELSE {1} END]",
    "list_contains": _where(
        ["{0}", "{1}"],
        f"CASE WHEN list_contains({{0}}, {{1}}) THEN TRUE WHEN {_HAS_NULL} THEN NULL "
        "ELSE FALSE END",
    ),
    "list_position": _where(["{0}", "{1}"], "coalesce(list_position({0}, {1}), 0)"),
    "list_append": _where(["{0}"], "list_append({0}, {1})"),
    "list_prepend": _where(["{0}"], "list_prepend({1}, {0})"),
    "list_flatten": f"CASE WHEN {_HAS_NULL} THEN NULL ELSE flatten({{0}}) END",
    "list_drop_nulls": "list_filter({0}, lambda one_: one_ IS NOT NULL)",
    "list_reverse": "list_reverse({0})",
    "list_mean": "list_avg({0})",
    "list_any": _where(["{0}"], "coalesce(list_bool_or({0}), FALSE)"),
    "list_all": _where(["{0}"], "coalesce(list_bool_and({0}), TRUE)"),
    "list_repeat": _where(["{1}"], "list_transform(range(greatest({1}, 0)), lambda at_: {0})"),
}  # fmt: skip


def _array(args: Args, types: Signature, _: Literals) -> str:
    return f"CAST([{', '.join(args)}] AS {type_sql(types.result)})"


def _concat(args: Args, _: Signature, __: Literals) -> str:
    return _where(args, f"({' || '.join(args)})")


def _concat_list(args: Args, types: Signature, _: Literals) -> str:
    whole = [dtype == types.result for dtype in types.args]
    parts = [
        arg if one else f"CAST([{arg}] AS {type_sql(types.result)})"
        for arg, one in zip(args, whole, strict=True)
    ]
    lists = [arg for arg, one in zip(args, whole, strict=True) if one]
    return _where(lists, f"({' || '.join(parts)})") if lists else f"({' || '.join(parts)})"


def _slice(args: Args, _: Signature, __: Literals) -> str:
    """A slice that begins before its list is empty."""
    values, start, length = args
    wide = f"CAST({start} AS BIGINT)"
    begin = f"CASE WHEN {wide} > 0 THEN {wide} ELSE len({values}) + {wide} + 1 END"
    size = f"CASE WHEN {begin} < 1 THEN 0 ELSE {length} END"
    wrong = f"CASE WHEN {start} = 0 OR {length} < 0 THEN error('bad slice') END"
    cut = f"{values}[greatest({begin}, 1):greatest({begin}, 1) + ({size}) - 1]"
    return _where(args, f"CASE WHEN {wrong} IS NULL THEN {cut} END")


def _one_zero(value: str, types: Signature) -> str:
    floats = t.is_floating(types.result.value_type)
    return f"list_transform({value}, lambda one_: one_ + 0)" if floats else value


def _distinct(value: str) -> str:
    return f"list_filter({value}, lambda one_, at_: list_position({value}, one_) = at_)"


def _unique(args: Args, types: Signature, _: Literals) -> str:
    return _distinct(_one_zero(args[0], types))


def _union(args: Args, types: Signature, _: Literals) -> str:
    a, b = (_one_zero(arg, types) for arg in args)
    return _where(args, _distinct(f"({a} || {b})"))


def _member(sign: str) -> str:
    return f"coalesce(list_position({{1}}, one_), 0) {sign} 0"


def _intersect(args: Args, types: Signature, _: Literals) -> str:
    a, b = (_one_zero(arg, types) for arg in args)
    found = _member(">").format(a, b)
    return _where(args, f"list_filter({_distinct(a)}, lambda one_: {found})")


def _except(args: Args, types: Signature, _: Literals) -> str:
    a, b = (_one_zero(arg, types) for arg in args)
    found = _member("=").format(a, b)
    return _where(args, f"list_filter({_distinct(a)}, lambda one_: {found})")


def _sort(args: Args, types: Signature, literals: Literals) -> str:
    _refuse_nested(types.result.value_type)
    order = "DESC" if constant("list_sort", literals, 1) else "ASC"
    nulls = "LAST" if constant("list_sort", literals, 2) else "FIRST"
    return f"list_sort({args[0]}, '{order}', 'NULLS {nulls}')"


def _extreme(function: str) -> Callable[[Args, Signature, Literals], str]:
    def build(args: Args, types: Signature, _: Literals) -> str:
        _refuse_nested(types.result)
        return f"{function}({args[0]})"

    return build


def _refuse_nested(dtype: pa.DataType) -> None:
    """DuckDB has nulls inside lists and structs as the largest values, Spark as the smallest."""
    if t.is_nested(dtype):
        raise ValueError(f"no SQL for an order of {dtype}")


def _sum(args: Args, types: Signature, _: Literals) -> str:
    total = f"CAST(coalesce(list_sum({args[0]}), 0) AS {type_sql(types.result)})"
    return _where(args, total)


def _join(args: Args, _: Signature, literals: Literals) -> str:
    if literals[1] is None:
        raise ValueError("no SQL for a join by a column")
    values = args[0]
    if len(args) == 3:
        values = f"list_transform({values}, lambda one_: coalesce(one_, {args[2]}))"
    return _where(args, f"coalesce(array_to_string({values}, {args[1]}), '')")


def _sequence(args: Args, types: Signature, _: Literals) -> str:
    start, stop = args[:2]
    step = args[2] if len(args) == 3 else f"CASE WHEN {start} <= {stop} THEN 1 ELSE -1 END"
    wrong = f"({start} < {stop} AND {step} <= 0) OR ({start} > {stop} AND {step} >= 0)"
    one = f"[{start}]"
    many = f"generate_series({start}, {stop}, {step})"
    made = f"CASE WHEN {start} = {stop} THEN {one} ELSE {many} END"
    made = f"CASE WHEN {wrong} THEN error('bad sequence') ELSE {made} END"
    return _where(args, f"CAST({made} AS {type_sql(types.result)})")


def _zip(args: Args, types: Signature, _: Literals) -> str:
    lists = args[1::2]
    pairs = zip(types.result.value_type.names, lists, strict=True)
    longest = f"greatest({', '.join(f'len({one})' for one in lists)})"
    fields = (f"{field_sql(name)} := {one}[at_ + 1]" for name, one in pairs)
    packed = f"list_transform(range({longest}), lambda at_: struct_pack({', '.join(fields)}))"
    return _where(lists, packed)


def _struct(args: Args, types: Signature, _: Literals) -> str:
    pairs = zip(types.result.names, args[1::2], strict=True)
    return f"struct_pack({', '.join(f'{field_sql(name)} := {value}' for name, value in pairs)})"


def _field(args: Args, _: Signature, __: Literals) -> str:
    return f"struct_extract({args[0]}, {args[1]})"


BUILDERS: Builders = {
    "array": _array,
    "list_concat": _concat,
    "concat_list": _concat_list,
    "list_slice": _slice,
    "list_unique": _unique,
    "list_union": _union,
    "list_intersect": _intersect,
    "list_except": _except,
    "list_sort": _sort,
    "list_min": _extreme("list_min"),
    "list_max": _extreme("list_max"),
    "list_sum": _sum,
    "list_join": _join,
    "sequence": _sequence,
    "list_zip": _zip,
    "struct": _struct,
    "struct_field": _field,
}
