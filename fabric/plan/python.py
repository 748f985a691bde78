"""Expressions as the Python a user would write.

One job: text of an expression that can be pasted: ``col("delay") > 15``. Nodes are in
`node_text.py`, the tree of a whole plan in `printer.py`. No recursion, so anything can be shown.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from keyword import iskeyword
from typing import Any, NamedTuple

import pyarrow as pa

from fabric.plan.expr import (
    Agg,
    Alias,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    Frame,
    IsIn,
    Literal,
    Over,
    SortKey,
    Udf,
)
from fabric.plan.faults import quoted
from fabric.plan.functions import AGGREGATES, FUNCTIONS, Function
from fabric.plan.row_pattern import PATTERN_FUNCTIONS
from fabric.plan.walk import fold

_COMPARE, _OR, _AND, _SUM, _PRODUCT, _UNARY, _POWER, _ATOM = range(8)
_OPERATORS = {
    "==": _COMPARE, "!=": _COMPARE, "<": _COMPARE, "<=": _COMPARE, ">": _COMPARE, ">=": _COMPARE,
    "|": _OR, "&": _AND, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT,
    "%": _PRODUCT, "**": _POWER,
}  # fmt: skip
"""How tightly they bind."""
_SIGNS = frozenset("~-")
_HOW = {"numba": " [compiled by Numba]", "row": " [row by row]"}
_NAMED = frozenset(("struct", "list_zip"))
_COLUMN = re.compile(r'col\("(?:[^"\\]|\\.)*"\)')
_WHOLE_STRING = (1 << 31) - 1


class _Text(NamedTuple):
    """Text of a part, how tightly it binds, and how it reads where a plain constant may stand."""

    text: str
    level: int
    bare: str


def expr_text(expr: Expr) -> str:
    """`expr` as Python code.

    >>> expr_text(Call("gt", (Column("delay"), Literal(15, pa.int32()))))
    'col("delay") > 15'
    """
    return fold(expr, _part).text


def subject_text(expr: Expr) -> str:
    """`expr` where a method follows.

    >>> subject_text(Call("add", (Column("a"), Column("b"))))
    '(col("a") + col("b"))'
    """
    return _atom(fold(expr, _part))


def function_text(function: str) -> str:
    """A function of the registry as users write it.

    >>> function_text("gt"), function_text("list_len"), function_text("coalesce")
    ('>', '.list.len', 'coalesce')
    """
    known = FUNCTIONS.get(function)
    return known.text if known and known.text else function


def column_text(expr: Expr) -> str:
    """`expr` where a name alone means a column: in select, group_by, sort and join keys."""
    return quoted(expr.name) if isinstance(expr, Column) else expr_text(expr)


def _over(over: Over, below: Sequence[_Text]) -> str:
    n_keys = len(over.partition_by)
    parts = [column_text(key) for key in over.partition_by]
    if over.order_by:
        keys = [sort_key_text(key) for key in over.order_by]
        parts.append(f"order_by={keys[0] if len(keys) == 1 else '[' + ', '.join(keys) + ']'}")
    if over.frame is not None:
        parts.append(frame_text(over.frame))
    elif over.order_by and over.input.function in AGGREGATES:
        parts.append("range=(None, 0)")  # what an order means in a plan, but not in the API
    assert len(below) == 1 + n_keys + len(over.order_by)
    return f"{below[0].text}.over({', '.join(parts)})"


def frame_text(frame: Frame) -> str:
    """A frame as ``over`` takes it.

    >>> frame_text(Frame("rows", -2, 0))
    'rows=(-2, 0)'
    """
    return f"{frame.unit}=({frame.start}, {frame.end})"


def columns_text(exprs: Iterable[Expr]) -> str:
    """Columns as arguments of a step."""
    return ", ".join(column_text(expr) for expr in exprs)


def one_or_list(texts: Iterable[str]) -> str:
    """One argument as it is, several as a list."""
    listed = list(texts)
    return listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"


def sort_key_text(key: SortKey) -> str:
    """One key of a sort.

    >>> sort_key_text(SortKey(Column("a"), descending=True, nulls_last=True))
    'col("a").desc()'
    """
    if not key.descending and not key.nulls_last:
        return column_text(key.input)
    text = subject_text(key.input)
    if key.descending:
        return f"{text}.desc()" + ("" if key.nulls_last else ".nulls_first()")
    return f"{text}.asc().nulls_last()"


def dtype_text(dtype: pa.DataType) -> str:
    """A type as `cast` and `lit` take it."""
    return quoted(str(dtype))


def _part(part: Expr, below: tuple[_Text, ...]) -> _Text:
    if isinstance(part, Literal):
        return _literal(part)
    text, level = _inner(part, below)
    return _Text(text, level, text)


def _inner(part: Expr, below: tuple[_Text, ...]) -> tuple[str, int]:
    match part:
        case Column(name=name):
            return f"col({quoted(name)})", _ATOM
        case Call(function=function):
            return _call(function, below)
        case Case():
            return _case(part, below), _ATOM
        case Cast(dtype=dtype, try_=try_):
            method = "try_cast" if try_ else "cast"
            return f"{_atom(below[0])}.{method}({dtype_text(dtype)})", _ATOM
        case IsIn(values=values):
            listed = ", ".join(_scalar(value) for value in values)
            return f"{_atom(below[0])}.is_in([{listed}])", _ATOM
        case Alias(name=name):
            return f"{_atom(below[0])}.alias({quoted(name)})", _ATOM
        case Agg(function=function) if function in PATTERN_FUNCTIONS or (
            function in ("first", "last") and part.args
        ):
            return f"{function}({', '.join(_bare_column(text) for text in below)})", _ATOM
        case Agg(function=function, input=source):
            args = ", ".join(text.bare for text in below[source is not None :])
            if function == "quantile" and len(below) == 2:
                args += ', "linear"'
            subject = "" if source is None else f"{_atom(below[0])}."
            return f"{subject}{function}({args})", _ATOM
        case Over():
            return _over(part, below), _ATOM
        case Udf(name=name, kind=kind):
            return f"{name}({', '.join(text.text for text in below)}){_HOW.get(kind, '')}", _ATOM
        case _:
            raise AssertionError(part)


def _bare_column(text: _Text) -> str:
    """An argument of a function that takes a name for a column."""
    is_column = _COLUMN.fullmatch(text.text) is not None
    return text.text[len("col(") : -1] if is_column else text.bare


def _atom(text: _Text) -> str:
    """The text with brackets if a method call after it needs them."""
    return text.text if text.level == _ATOM else f"({text.text})"


def _at(text: _Text, level: int) -> str:
    return text.text if text.level >= level else f"({text.text})"


def _call(function: str, args: Sequence[_Text]) -> tuple[str, int]:
    known, text = FUNCTIONS.get(function), function_text(function)
    is_whole = known is not None and known.arity == (len(args), len(args))
    if text in _OPERATORS and len(args) == 2 and is_whole:
        return _binary(text, *args)
    if text in _SIGNS and len(args) == 1 and is_whole:
        return text + _at(args[0], _UNARY), _UNARY
    if known is not None and text.startswith(".") and len(args) > known.subject:
        return _method_call(known, args), _ATOM
    if function in _NAMED and len(args) % 2 == 0:
        return _named_call(function, args), _ATOM
    name = text if text.isidentifier() else function
    return f"{name}({', '.join(arg.text for arg in args)})", _ATOM


def _binary(operator: str, left: _Text, right: _Text) -> tuple[str, int]:
    level = _OPERATORS[operator]
    before = _at(left, level + (level in (_COMPARE, _POWER)))
    after = right.bare if right.bare != right.text else _at(right, level + 1)
    return f"{before} {operator} {after}", level


def _method_call(function: Function, args: Sequence[_Text]) -> str:
    rest = [arg.bare for i, arg in enumerate(args) if i != function.subject]
    match function.name:
        case "to_date" if rest:
            return f"to_date({', '.join(arg.text for arg in args)})"
        case "substring" | "list_slice" if rest[1:] == [str(_WHOLE_STRING)]:
            rest.pop()
        case "replace_time_zone":
            rest[1:] = [f"ambiguous={rest[1]}", f"non_existent={rest[2]}"]
    rest += [function.flag] if function.flag else []
    return f"{_atom(args[function.subject])}{function.text}({', '.join(rest)})"


def _named_call(function: str, args: Sequence[_Text]) -> str:
    """Names and values in turn as keyword arguments."""
    pairs = list(zip(args[::2], args[1::2], strict=True))
    names = [name.bare[1:-1] for name, _ in pairs]
    if all(name.isidentifier() and not iskeyword(name) for name in names):
        listed = (f"{name}={value.text}" for name, (_, value) in zip(names, pairs, strict=True))
        return f"{function}({', '.join(listed)})"
    return f"{function}(**{{{', '.join(f'{name.bare}: {value.text}' for name, value in pairs)}}})"


def _case(part: Case, below: Sequence[_Text]) -> str:
    pairs = zip(below[:-1:2], below[1::2], strict=True)
    text = ".".join(f"when({c.bare}).then({_where_columns_are_meant(v)})" for c, v in pairs)
    nothing = part.otherwise == Literal(None, pa.null())
    return text if nothing else f"{text}.otherwise({_where_columns_are_meant(below[-1])})"


def _where_columns_are_meant(text: _Text) -> str:
    """A bare text would be a column there."""
    return text.text if text.bare.startswith('"') else text.bare


def _literal(literal: Literal) -> _Text:
    """A constant: ``lit(...)`` by itself, bare beside an expression when its type is the usual."""
    value, usual = literal.value, usual_type(literal.value)
    text = _value(value)
    if usual is not None and usual.equals(literal.dtype):
        whole = f"lit({text})"
        return _Text(whole, _ATOM, whole if value is None else text)
    whole = f"lit({text}, {dtype_text(literal.dtype)})"
    return _Text(whole, _ATOM, whole)


def _scalar(literal: Literal) -> str:
    """A constant inside a list of constants."""
    usual = usual_type(literal.value)
    if usual is not None and usual.equals(literal.dtype):
        return _value(literal.value)
    return f"pa.scalar({_value(literal.value)}, {dtype_text(literal.dtype)})"


def usual_type(value: Any) -> pa.DataType | None:
    """The type a Python constant gets by itself, or None when it can't be one.

    >>> usual_type(1), usual_type("a")
    (DataType(int32), DataType(string))
    """
    match value:
        case bool():
            return pa.bool_()
        case int():
            return pa.int32() if -(1 << 31) <= value < 1 << 31 else pa.int64()
        case datetime.datetime():
            return pa.timestamp("us", "UTC" if value.tzinfo else None)
        case None | float() | str() | bytes() | Decimal() | datetime.date() | datetime.time():
            return pa.scalar(value).type
        case datetime.timedelta():
            return pa.duration("us")
        case _:
            return None


def _value(value: Any) -> str:
    match value:
        case str():
            return quoted(value)
        case float() if not math.isfinite(value):
            return f'float("{value}")'
        case datetime.datetime() if value.tzinfo is not None:
            return f'datetime.datetime.fromisoformat("{value.isoformat()}")'
        case _:
            return repr(value)
