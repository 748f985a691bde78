"""Expression nodes: frozen, hashable, compared by structure.

One job: the shape of an expression. What a function is called, takes and returns is in
`functions/`; the class with operators that users write with is `fabric.clients.dataframe.expr`'s.
Every expression means what Spark 4.3 says in ANSI mode, in all places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from typing import Literal as Choice

import pyarrow as pa

FrameUnit = Choice["rows", "range"]
UdfKind = Choice["arrow", "row", "numba", "auto"]


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
    """An aggregate, or inside `Over` also a window function such as row_number or lag.

    `input` None means ``count(*)``, or a function that reads no column. `args` are what else it
    takes: the other column of ``corr``, the fraction of ``quantile``, the offset of ``lag``.
    """

    function: str
    input: Expr | None
    args: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of a sort. Default is Spark's: ascending, nulls first; NaN is the largest value."""

    input: Expr
    descending: bool = False
    nulls_last: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows around each row that a window function sees.

    `start` and `end` count from the current row (0), before it below 0; None is the end of the
    partition. In unit "rows" they count rows; in "range" they are distances of the one order key.
    """

    unit: FrameUnit
    start: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class Over:
    """A window function: `input` over the rows with equal `partition_by`, ordered by `order_by`.

    Without a `frame` it is SQL's: with an order all rows up to the current one and its equals, else
    the whole partition. Only a `Window` node may hold it, at the top of an expression.
    """

    input: Agg
    partition_by: tuple[Expr, ...] = ()
    order_by: tuple[SortKey, ...] = ()
    frame: Frame | None = None


@dataclass(frozen=True, slots=True)
class Udf:
    """A user's Python function of `args`, returning `dtype`.

    "arrow" takes and returns arrays, "row" and "numba" single values, as "auto" does until a
    session has chosen. `payload` is its pickle. It is only ever loaded in a task, after `mac` (set
    by the coordinator) was checked.
    """

    name: str
    args: tuple[Expr, ...]
    dtype: pa.DataType
    kind: UdfKind
    payload: bytes = field(repr=False)
    mac: bytes = field(default=b"", repr=False)


Expr = Column | Literal | Call | Case | Cast | IsIn | Alias | Agg | Over | Udf
"""Any expression node."""


def children(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly below `expr`, in reading order."""
    match expr:
        case Call(args=args) | Udf(args=args):
            return args
        case Case(branches=branches, otherwise=otherwise):
            return (*(e for branch in branches for e in branch), otherwise)
        case Cast(input=source) | IsIn(input=source) | Alias(input=source):
            return (source,)
        case Agg(input=source, args=args):
            return args if source is None else (source, *args)
        case Over(input=agg, partition_by=partition_by, order_by=order_by):
            return (agg, *partition_by, *(key.input for key in order_by))
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
    if isinstance(expr, Column):
        return frozenset((expr.name,))
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
            case Agg(function=function, input=None) | Udf(name=function, args=()):
                return function
    return "literal"
