"""What rules ask of expressions: their conjuncts, other columns put in, and can they fail.

One job: pure questions and copies. `total` is on the safe side: what it does not know can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

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
    columns_of,
    output_name,
)
from fabric.plan.functions import signature
from fabric.plan.schema import type_of
from fabric.plan.types import plain
from fabric.plan.walk import fold

_TOTAL = frozenset(
    (
        "eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe", "and", "or", "not", "is_null",
        "is_not_null", "is_nan", "coalesce", "upper", "lower", "length", "trim", "ltrim", "rtrim",
        "substring", "concat", "contains", "starts_with", "ends_with", "year", "month", "day",
        "hour", "minute", "second", "day_of_week",
    )
)  # fmt: skip
_MERGED_DEPTH_MAX = 100
_MERGED_SIZE_MAX = 2000
_TOTAL_ON_FLOATS = frozenset(("add", "subtract", "multiply", "negate", "abs"))


def conjuncts(predicate: Expr) -> list[Expr]:
    """The parts that must all be true, in the order in which they are written.

    >>> a, b, c = Column("a"), Column("b"), Column("c")
    >>> conjuncts(Call("and", (Call("and", (a, b)), c))) == [a, b, c]
    True
    """
    found: list[Expr] = []
    stack = [predicate]
    while stack:
        expr = stack.pop()
        if isinstance(expr, Call) and expr.function == "and":
            stack.extend(reversed(expr.args))
        else:
            found.append(expr)
    return found


def conjoin(parts: Sequence[Expr]) -> Expr:
    """One predicate of one or more parts: a balanced tree, so that many parts do not nest deep.

    >>> conjoin([Column("a")])
    Column(name='a')
    """
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return Call("and", (conjoin(parts[:middle]), conjoin(parts[middle:])))


def split(
    predicate: Expr,
    schema: pa.Schema,
    can_move: Callable[[Expr], bool],
    *,
    only_total: bool = False,
) -> tuple[list[Expr], list[Expr]]:
    """Conjuncts that may be evaluated earlier than the others, and the rest; both keep their order.

    One that can fail moves only if all before it move too, because they may protect it; with
    `only_total` it never moves.
    """
    moved: list[Expr] = []
    kept: list[Expr] = []
    for part in conjuncts(predicate):
        free = total(part, schema)
        if can_move(part) and (free or (not kept and not only_total)):
            moved.append(part)
        else:
            kept.append(part)
    return moved, kept


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """`expr` with each column replaced by its value, where `values` has one."""

    def put(node: Expr, below: tuple[Expr, ...]) -> Expr:
        if isinstance(node, Column):
            return values.get(node.name, node)
        return with_children(node, below)

    return fold(expr, put)


def with_children(expr: Expr, below: tuple[Expr, ...]) -> Expr:
    """A copy of `expr` over other children, in the order of `fabric.plan.expr.children`."""
    match expr:
        case Call(function=function):
            return Call(function, below)
        case Case():
            pairs = tuple(zip(below[:-1:2], below[1:-1:2], strict=True))
            return Case(pairs, below[-1])
        case Cast(dtype=dtype, try_=try_):
            return Cast(below[0], dtype, try_)
        case IsIn(values=values):
            return IsIn(below[0], values)
        case Alias(name=name):
            return Alias(below[0], name)
        case Agg(function=function):
            return Agg(function, below[0] if below else None)
        case Column() | Literal():
            return expr


def unaliased(expr: Expr) -> Expr:
    """`expr` without the name at its top."""
    return expr.input if isinstance(expr, Alias) else expr


def named(expr: Expr, name: str) -> Expr:
    """`expr` under the output name `name`.

    >>> named(Column("a"), "a"), named(Column("a"), "b")
    (Column(name='a'), Alias(input=Column(name='a'), name='b'))
    """
    bare = unaliased(expr)
    return bare if output_name(bare) == name else Alias(bare, name)


def passed_through(exprs: Iterable[Expr]) -> dict[str, Column]:
    """Outputs that are an input column under some name: that column by output name.

    Constants are left out: put into a call they would change its types, since a decimal's precision
    follows from a constant's digits.
    """
    found = ((output_name(expr), unaliased(expr)) for expr in exprs)
    return {name: value for name, value in found if isinstance(value, Column)}


def reads_only(names: Iterable[str]) -> Callable[[Expr], bool]:
    """Whether an expression reads no other columns than `names`."""
    known = frozenset(names)
    return lambda expr: columns_of(expr) <= known


def fits(expr: Expr) -> bool:
    """Whether a merged expression stays far below the limits of `fabric.plan.infer`.

    >>> fits(Column("a"))
    True
    """

    def measure(_: Expr, below: tuple[tuple[int, int], ...]) -> tuple[int, int]:
        deepest = max((depth for depth, _ in below), default=0)
        return 1 + deepest, 1 + sum(size for _, size in below)

    depth, size = fold(expr, measure)
    return depth <= _MERGED_DEPTH_MAX and size <= _MERGED_SIZE_MAX


def total(expr: Expr, schema: pa.Schema) -> bool:
    """Whether `expr` has a value (or null) for every row of `schema`: it can't raise.

    >>> x = Column("x")
    >>> schema = pa.schema([("x", pa.int64())])
    >>> total(Call("gt", (x, x)), schema), total(Call("divide", (x, x)), schema)
    (True, False)
    """

    def known(node: Expr, below: tuple[bool, ...]) -> bool:
        return all(below) and _total_here(node, schema)

    return fold(expr, known)


def _total_here(expr: Expr, schema: pa.Schema) -> bool:
    """Whether `expr` can't fail as long as its children don't."""
    match expr:
        case Column() | Literal() | Alias():
            return True
        case Case(branches=branches, otherwise=otherwise):
            types = {type_of(e, schema) for e in (*(v for _, v in branches), otherwise)}
            return len(types) == 1
        case Cast(input=source, dtype=dtype, try_=try_):
            return try_ or widens(type_of(source, schema), dtype)
        case IsIn(input=source, values=values):
            dtype = type_of(source, schema)
            return all(value.dtype == dtype for value in values)
        case Call():
            return _total_call(expr, schema)
        case _:
            return False


def _total_call(call: Call, schema: pa.Schema) -> bool:
    types = [type_of(arg, schema) for arg in call.args]
    literals = [arg if isinstance(arg, Literal) else None for arg in call.args]
    made = signature(call.function, types, literals)
    if not all(widens(a, b) for a, b in zip(types, made.args, strict=True)):
        return False
    on_floats = call.function in _TOTAL_ON_FLOATS and pa.types.is_floating(made.result)
    return call.function in _TOTAL or on_floats


def widens(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of `source` has one in `target`.

    >>> widens(pa.int32(), pa.int64()), widens(pa.int64(), pa.int32())
    (True, False)
    """
    source, target = plain(source), plain(target)
    is_ = pa.types
    if source == target or is_.is_null(source):
        return True
    if is_.is_integer(source) and is_.is_integer(target):
        signed = is_.is_signed_integer(source), is_.is_signed_integer(target)
        wider = target.bit_width > source.bit_width
        return bool(wider and (signed[1] or not signed[0]))
    if is_.is_integer(source) and is_.is_floating(target):
        return bool(target.bit_width >= 32)
    if is_.is_integer(source) and is_.is_decimal(target):
        return bool(target.precision - target.scale >= 20)
    if is_.is_floating(source) and is_.is_floating(target):
        return bool(target.bit_width >= source.bit_width)
    if is_.is_decimal(source) and is_.is_decimal(target):
        digits = target.precision - target.scale >= source.precision - source.scale
        return bool(digits and target.scale >= source.scale)
    texts = (is_.is_string, is_.is_large_string, is_.is_string_view)
    return any(f(source) for f in texts) and any(f(target) for f in texts)
