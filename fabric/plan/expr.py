"""Expression nodes: frozen, hashable, compared by structure.

One job: the shape of an expression. What a function is called, takes and returns is in
`functions/`; the class with operators that users write with is that of
`fabric.clients.dataframe.expressions.expr`.
Every expression means what Spark 4.3 says in ANSI mode, in all places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from typing import Literal as Choice

import pyarrow as pa

FrameUnit = Choice["rows", "range"]
UdfKind = Choice["arrow", "row", "numba", "auto", "object"]


class _Memo:
    """Room for answers about a frozen expression; no fields, so neither compared nor copied."""

    __slots__ = ("_below", "_call", "_columns", "_output")
    _below: tuple[Any, ...]
    _call: object
    _columns: frozenset[str]
    _output: str


def _keep(expr: Expr, name: str, answer: object) -> None:
    object.__setattr__(expr, name, answer)


@dataclass(frozen=True, slots=True)
class Column(_Memo):
    """A column of the input, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal(_Memo):
    """A constant; `value` is None or what ``pa.scalar(value, dtype)`` takes."""

    value: Any
    dtype: pa.DataType


@dataclass(frozen=True, slots=True)
class Call(_Memo):
    """A scalar function of the registry (`plan/functions`) applied to `args`.

    Arithmetic, comparison, boolean, null tests, string and date functions are all calls.
    """

    function: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Case(_Memo):
    """``CASE WHEN c THEN v ... ELSE otherwise END``; the first true condition wins."""

    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Cast(_Memo):
    """ANSI cast: a value `dtype` can't hold is an `ExpressionError`; with `try_` it is null."""

    input: Expr
    dtype: pa.DataType
    try_: bool = False


@dataclass(frozen=True, slots=True)
class IsIn(_Memo):
    """SQL ``IN``: null when the input is null, or when nothing matches and a value is null."""

    input: Expr
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Alias(_Memo):
    """`input` under another output name; only at the top of an expression."""

    input: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Agg(_Memo):
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
class Over(_Memo):
    """A window function: `input` over the rows with equal `partition_by`, ordered by `order_by`.

    Without a `frame` it is SQL's: with an order all rows up to the current one and its equals, else
    the whole partition. Only a `Window` node may hold it, at the top of an expression.
    """

    input: Agg
    partition_by: tuple[Expr, ...] = ()
    order_by: tuple[SortKey, ...] = ()
    frame: Frame | None = None


@dataclass(frozen=True, slots=True)
class Udf(_Memo):
    """A user's Python function of `args`, returning `dtype`.

    "arrow" takes and returns arrays, "row" and "numba" single values, as "auto" does until a
    session has chosen; "object" is whatever the node that holds it calls. `payload` is its pickle.
    It is only ever loaded in a task, after `mac` (set by the coordinator) was checked.
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
    below = _BELOW.get(type(expr))
    return () if below is None else below(expr)


def _of_case(expr: Case) -> tuple[Expr, ...]:
    return (*(e for branch in expr.branches for e in branch), expr.otherwise)


def _of_over(expr: Over) -> tuple[Expr, ...]:
    return (expr.input, *expr.partition_by, *(key.input for key in expr.order_by))


_BELOW: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    Call: lambda expr: expr.args,
    Udf: lambda expr: expr.args,
    Case: _of_case,
    Over: _of_over,
    Agg: lambda expr: expr.args if expr.input is None else (expr.input, *expr.args),
    **dict.fromkeys((Cast, IsIn, Alias), lambda expr: (expr.input,)),
}
"""By kind, for those that have any; `children` is asked more often than all else."""


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
    try:
        return expr._columns
    except AttributeError:
        found = frozenset(part.name for part in _parts(expr) if type(part) is Column)
        _keep(expr, "_columns", found)
        return found


def output_name(expr: Expr) -> str:
    """The name of the column `expr` produces: its alias, else its first column, else "literal".

    A case is called as the first of its values, whatever its conditions read; a field of a struct
    as the field.

    >>> output_name(Call("subtract", (Literal(1, pa.int32()), Column("a"))))
    'a'
    >>> output_name(Case(((Column("a"), Column("b")),), Literal(0, pa.int32())))
    'b'
    """
    if isinstance(expr, Alias | Column):
        return expr.name
    try:
        return expr._output
    except AttributeError:
        found = _first_name(expr)
        _keep(expr, "_output", found)
        return found


def _first_name(expr: Expr) -> str:
    stack = [expr]
    while stack:
        part = stack.pop()
        match part:
            case Alias(name=name) | Column(name=name):
                return name
            case Agg(function=function, input=None) | Udf(name=function, args=()):
                return function
            case Call(function="struct_field", args=(_, Literal(value=str(name)))):
                return name
            case Case(branches=branches, otherwise=otherwise):
                stack += [otherwise, *(value for _, value in reversed(branches))]
            case _:
                stack += reversed(children(part))
    return "literal"


def kept_names(exprs: Iterable[Expr]) -> dict[str, str]:
    """Input columns that `exprs` put out as they are: output name by input name."""
    found: dict[str, str] = {}
    for expr in exprs:
        bare = expr.input if isinstance(expr, Alias) else expr
        if isinstance(bare, Column):
            found.setdefault(bare.name, output_name(expr))
    return found


def as_udf(expr: Expr) -> Udf:
    """A function that takes the place of a function: the same with another MAC."""
    assert isinstance(expr, Udf)
    return expr
