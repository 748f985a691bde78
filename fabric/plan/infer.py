"""The type of an expression over a schema, or what is wrong with it.

One job: type inference, without recursion. What is wrong is an `ExprFault` that holds the mended
expression where one is known. Expressions are limited in depth and size, because engines recurse
over them: `DEPTH_MAX` levels, `SIZE_MAX` parts.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

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
    IsIn,
    Literal,
    Over,
    Udf,
    children,
)
from fabric.plan.faults import ArgumentFault, ExprFault, listed, nearest, quoted
from fabric.plan.functions import AGGREGATES, WINDOW_FUNCTIONS, find
from fabric.plan.literals import scalar_of
from fabric.plan.python import function_text
from fabric.plan.row_pattern import PATTERN_FUNCTIONS
from fabric.plan.types import (
    can_cast,
    common_of,
    common_type,
    flat_type,
    is_boolean,
    is_nested,
    is_string,
    plain,
)
from fabric.plan.walk import fold, with_expr_children
from fabric.plan.zones import no_zone

DEPTH_MAX = 200
SIZE_MAX = 20_000


class _Typed(NamedTuple):
    """What inference knows of a part: its type, and how deep and large it is."""

    dtype: pa.DataType
    depth: int
    size: int


def infer(expr: Expr, schema: pa.Schema) -> pa.DataType:
    """The type of a row expression; an aggregate in it is a fault."""
    inner = expr.input if isinstance(expr, Alias) else expr
    if isinstance(inner, Column):
        return _column_type(inner, inner.name, schema)

    def one(part: Expr, below: tuple[_Typed, ...]) -> _Typed:
        depth = 1 + max((child.depth for child in below), default=0)
        size = 1 + sum(child.size for child in below)
        if depth > DEPTH_MAX or size > SIZE_MAX:
            raise ExprFault(
                f"an expression is too large: {depth} levels, {size} parts; at most {DEPTH_MAX} "
                f"and {SIZE_MAX} are allowed; compute parts of it in an earlier with_columns"
            )
        return _Typed(_part_type(part, tuple(b.dtype for b in below), schema), depth, size)

    return fold(inner, one).dtype


def infer_agg(expr: Expr, schema: pa.Schema) -> pa.DataType:
    """The type of an `Agg`, which may have an alias; anything else is a fault."""
    agg = expr.input if isinstance(expr, Alias) else expr
    if not isinstance(agg, Agg):
        raise ExprFault("this is not an aggregate", expr)
    if agg.function in PATTERN_FUNCTIONS:
        raise ExprFault(_no_place_for(agg.function), agg)
    if agg.function not in AGGREGATES:
        near = nearest(agg.function, AGGREGATES)
        new = None if near is None else replace(agg, function=near)
        raise ExprFault(f"there is no aggregate {agg.function[:80]!r}", agg, new)
    parts = children(agg)
    types = [infer(part, schema) for part in parts]
    literals = [part if isinstance(part, Literal) else None for part in parts]
    try:
        return AGGREGATES[agg.function].result(*types, literals=literals)
    except ArgumentFault as fault:
        mended = None
        if fault.index >= 0:
            mended = _with_cast(agg, parts[fault.index], types[fault.index], fault)
        raise ExprFault(fault.message, agg, mended) from None


def infer_boolean(expr: Expr, schema: pa.Schema, what: str) -> None:
    """Refuse a predicate that is not true, false or null."""
    dtype = infer(expr, schema)
    if not (is_boolean(dtype) or t.is_null(plain(dtype))):
        raise ExprFault(
            f"{what} must be true or false, got {dtype}", expr, _as_boolean(expr, dtype)
        )


def _part_type(part: Expr, below: tuple[pa.DataType, ...], schema: pa.Schema) -> pa.DataType:
    """The type of one part whose children have the types `below`."""
    match part:
        case Column(name=name):
            return _column_type(part, name, schema)
        case Literal():
            return _literal_type(part)
        case Call():
            return _call_type(part, below)
        case Case():
            return _case_type(part, below)
        case Cast(dtype=dtype):
            if not can_cast(below[0], dtype):
                raise ExprFault(f"there is no cast from {below[0]} to {dtype}", part)
            _check_zones(part, below[0], dtype)
            return dtype
        case IsIn():
            return _is_in_type(part, below[0])
        case Alias(input=inner):
            raise ExprFault("an alias goes around the whole expression, not inside it", part, inner)
        case Udf(dtype=dtype):
            return dtype
        case Over():
            raise ExprFault("a window function needs a column of its own", part)
        case Agg(function=function):
            raise ExprFault(_no_place_for(function), part)


def _no_place_for(function: str) -> str:
    """What an aggregate needs that is none of its own."""
    if function in PATTERN_FUNCTIONS:
        return f"{function} is for conditions and measures of .match(…)"
    if function in WINDOW_FUNCTIONS:
        return f"{function} needs a window: .over(...)"
    return f"the aggregate {function} needs a group_by(...).agg(...)"


def _column_type(part: Expr, name: str, schema: pa.Schema) -> pa.DataType:
    index = schema.get_field_index(name)
    if index >= 0:
        return schema.field(index).type
    fields = {f"{f.name}.{g.name}": (f.name, g.name)
              for f in schema if t.is_struct(f.type) and "." in name for g in f.type}  # fmt: skip
    near = nearest(name, [*schema.names, *fields])
    hint = f"; did you mean {quoted(near)}?" if near is not None else ""
    message = (
        f"there is no column {quoted(name)} here{hint}; the columns are {listed(schema.names)}"
    )
    if near is None:
        message += f"; for the text itself write lit({quoted(name)})"
    if near in fields:
        struct, field = fields[near]
        new: Expr = Call("struct_field", (Column(struct), Literal(field, pa.string())))
        raise ExprFault(message, part, new)
    raise ExprFault(message, part, None if near is None else Column(near))


def _check_zones(part: Cast, source: pa.DataType, target: pa.DataType) -> None:
    """Refuse a zone that there is not, of the source too."""
    for dtype in (target, source):
        inner = plain(dtype)
        while is_nested(inner) and inner.num_fields == 1:
            inner = plain(inner.field(0).type)
        if t.is_timestamp(inner) and inner.tz is not None and (fault := no_zone(inner.tz)):
            message, near = fault
            mended = None
            if near is not None and dtype is target and inner is target:
                mended = replace(part, dtype=pa.timestamp(inner.unit, near))
            raise ExprFault(f"a cast from {source} to {target}: {message}", part, mended)


def _literal_type(part: Literal) -> pa.DataType:
    if part.value is not None:
        try:
            scalar_of(part)
        except ValueError as error:
            raise ExprFault(str(error), part) from None
    return part.dtype


def _call_type(part: Call, below: tuple[pa.DataType, ...]) -> pa.DataType:
    literals = tuple(arg if isinstance(arg, Literal) else None for arg in part.args)
    try:
        return find(part.function).signature(below, literals).result
    except ArgumentFault as fault:
        new = None
        if fault.index >= 0:
            arg, dtype = part.args[fault.index], below[fault.index]
            new = _bitwise(part, below) or _with_cast(part, arg, dtype, fault)
        elif part.function not in (known := _names()) and (near := nearest(part.function, known)):
            new = replace(part, function=near)
        raise ExprFault(_for_users(fault.message, part), part, new) from None


def _for_users(message: str, part: Call) -> str:
    """What is wrong with a call, with its name and arguments as users know them."""
    shown = function_text(part.function)
    if part.function == "to_date" and len(part.args) > 1:  # of a text, by a pattern
        return message
    names = (part.function, shown.rpartition(".")[2])
    said = next((name for name in names if message.startswith(f"{name} ")), None)
    if said is None or shown == part.function:
        return message
    told = shown + message.removeprefix(said)
    if shown.startswith("."):  # what it is a method of is the first argument
        told = told.removesuffix(" as argument 1")
        return re.sub(r" as argument (\d+)$", lambda m: f" as argument {int(m[1]) - 1}", told)
    if len(part.args) == 1:
        return told.removesuffix(" as argument 1")
    if shown.isidentifier():
        return told
    for index, side in enumerate(("left", "right"), 1):
        told = re.sub(rf" as argument {index}$", f" on its {side}", told)
    return told


def _names() -> list[str]:
    from fabric.plan.functions import FUNCTIONS

    return list(FUNCTIONS)


def _bitwise(part: Call, below: tuple[pa.DataType, ...]) -> Expr | None:
    """``&`` and ``|`` of whole numbers as the functions they are."""
    if part.function in ("and", "or") and all(t.is_integer(plain(dtype)) for dtype in below):
        return replace(part, function=f"bitwise_{part.function}")
    return None


def _with_cast(
    part: Call | Agg, arg: Expr, dtype: pa.DataType, fault: ArgumentFault
) -> Expr | None:
    """`part` with the argument mended as `fault` wants it, or None."""
    mended = _mended(arg, dtype, fault.wanted)
    if mended is None:
        return None
    if isinstance(part, Agg):
        if fault.index == 0:
            return replace(part, input=mended)
        at = fault.index - 1
        return replace(part, args=(*part.args[:at], mended, *part.args[at + 1 :]))
    args = tuple(mended if i == fault.index else a for i, a in enumerate(part.args))
    return replace(part, args=args)


def _mended(arg: Expr, dtype: pa.DataType, wanted: object) -> Expr | None:
    """`arg` made what is wanted: another literal, a converted literal, or a cast."""
    if isinstance(wanted, Literal):
        return wanted
    if not isinstance(wanted, pa.DataType) or not can_cast(dtype, wanted):
        return None
    if is_boolean(wanted):
        return _as_boolean(arg, dtype)
    if isinstance(arg, Literal):
        try:
            return Literal(scalar_of(arg).cast(wanted).as_py(), wanted)
        except pa.ArrowException:
            return None
    return Cast(arg, wanted)


def _as_boolean(expr: Expr, dtype: pa.DataType) -> Expr | None:
    """What was probably meant by a predicate that is no boolean: ``x != 0``, a cast string."""
    if isinstance(expr, Literal):
        return None
    zero = common_type(dtype, pa.int32())
    if zero is not None:
        return Call("ne", (expr, Literal(0, pa.int32())))
    return Call("is_not_null", (expr,))


def _case_type(part: Case, below: tuple[pa.DataType, ...]) -> pa.DataType:
    if not part.branches:
        raise ExprFault("a case needs at least one when(...).then(...)", part)
    parts = children(part)
    for condition, dtype in list(zip(parts, below, strict=True))[:-1:2]:
        if not (is_boolean(dtype) or t.is_null(plain(dtype))):
            message = f"the condition of a when must be true or false, got {dtype}"
            raise ExprFault(message, condition, _as_boolean(condition, dtype))
    found = pa.null()
    for dtype in (*below[1:-1:2], below[-1]):
        common = common_type(found, dtype)
        if common is None:
            new = _of_one_type(part, below, found, dtype)
            raise ExprFault(
                f"the values of a case must be one type, got {found} and {dtype}", part, new
            )
        found = common
    return flat_type(found) if is_nested(found) else found


def _of_one_type(
    part: Case, below: tuple[pa.DataType, ...], found: pa.DataType, other: pa.DataType
) -> Expr | None:
    """The case with all values as texts when some are, else as the first ones are."""
    wanted = other if is_string(other) else found
    parts = list(children(part))
    for index in [*range(1, len(parts) - 1, 2), len(parts) - 1]:
        if common_type(below[index], wanted) is None:
            mended = _mended(parts[index], below[index], wanted)
            if mended is None:
                return None
            parts[index] = mended
    return with_expr_children(part, tuple(parts))


def _is_in_type(part: IsIn, dtype: pa.DataType) -> pa.DataType:
    for value in part.values:
        if not isinstance(value, Literal):
            raise ExprFault("is_in takes constants only", part)
    types = [_literal_type(value) for value in part.values]
    if common_of([dtype, *types]) is None:
        wrong = next(v for v, d in zip(part.values, types, strict=True)
                     if common_type(dtype, d) is None)  # fmt: skip
        values = [_mended(value, value.dtype, dtype) for value in part.values]
        fits = [value for value in values if isinstance(value, Literal)]
        new = replace(part, values=tuple(fits)) if len(fits) == len(values) else None
        raise ExprFault(f"is_in can't compare {dtype} and {wrong.dtype}", part, new)
    return pa.bool_()
