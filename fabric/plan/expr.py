"""Expression nodes: frozen, hashable, compared by structure.

One job: the shape of an expression. What a function is called, takes and returns is in
`functions/`; the class with operators that users write with is `fabric.clients.dataframe.expr`'s.
Every expression means what Spark 4.3 says in ANSI mode, in all places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the input, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; `value` is None or what ``pa.scalar(value, dtype)`` takes."""

    value: Any
    dtype: pa.DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function of the registry (`plan/functions`) applied to `args`.

    Arithmetic, comparison, boolean, null tests, string and date functions are all calls.
    """

    function: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """``CASE WHEN c THEN v ... ELSE otherwise END``; the first true condition wins."""

    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Cast:
    """ANSI cast: a value `dtype` can't hold is an `ExpressionError`; with `try_` it is null."""

    input: Expr
    dtype: pa.DataType
    try_: bool = False


@dataclass(frozen=True, slots=True)
class IsIn:
    """SQL ``IN``: null when the input is null, or when nothing matches and a value is null."""

    input: Expr
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Alias:
    """`input` under another output name; only at the top of an expression."""

    input: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Agg:
    """An aggregate: count, count_distinct, sum, min, max, mean. `input` None means ``count(*)``."""

    function: str
    input: Expr | None


Expr = Column | Literal | Call | Case | Cast | IsIn | Alias | Agg
"""Any expression node."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of a sort. Default is Spark's: ascending, nulls first; NaN is the largest value."""

    input: Expr
    descending: bool = False
    nulls_last: bool = False


def children(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly below `expr`, in reading order."""
    match expr:
        case Call(args=args):
            return args
        case Case(branches=branches, otherwise=otherwise):
            return (*(e for branch in branches for e in branch), otherwise)
        case Cast(input=source) | IsIn(input=source) | Alias(input=source):
            return (source,)
        case Agg(input=source) if source is not None:
            return (source,)
        case _:
            return ()


def _parts(expr: Expr) -> Iterator[Expr]:
    """Every different expression object in `expr`, before those below it, in reading order."""
    stack: list[Expr] = [expr]
    seen: set[int] = set()
    while stack:
        part = stack.pop()
        if id(part) not in seen:
            seen.add(id(part))
            yield part
            stack.extend(reversed(children(part)))


def columns_of(expr: Expr) -> frozenset[str]:
    """Names of all columns that `expr` reads."""
    return frozenset(part.name for part in _parts(expr) if isinstance(part, Column))


def output_name(expr: Expr) -> str:
    """The name of the column `expr` produces: its alias, else its first column, else "literal".

    >>> output_name(Call("subtract", (Literal(1, pa.int32()), Column("a"))))
    'a'
    """
    for part in _parts(expr):
        match part:
            case Alias(name=name) | Column(name=name):
                return name
            case Agg(function=function, input=None):
                return function
    return "literal"
