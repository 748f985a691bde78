"""Small tables with the values that break engines, and the words to write plans over them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from fabric.io.sources.memory import register
from fabric.plan.expr import Agg, Alias, Call, Column, Expr, Frame, Literal, Over, SortKey
from fabric.plan.nodes import Scan

NAN = float("nan")
NOON = datetime.datetime(2013, 1, 1, 12)
ROWS = pa.table({
    "id": pa.array(range(12), pa.int64()),
    "k": pa.array(["a", "b", None, "a", "b", None, "a", "c", "a", "b", "c", ""]),
    "i": pa.array([3, None, 0, -7, 3, 12, None, 0, 5, -2, 3, 1], pa.int32()),
    "u": pa.array([0, 255, None, 7, 7, 0, 1, 2, 3, 4, 5, 6], pa.uint8()),
    "f": pa.array([0.0, -0.0, NAN, 1.5, None, NAN, -2.25, 1e300, 0.0, None, -0.0, 4.0]),
    "d": pa.array([None, *(Decimal(n).scaleb(-2) for n in range(-500, 600, 100))],
                  pa.decimal128(9, 2)),
    "b": pa.array([True, False, None] * 4),
    "t": pa.array([NOON + datetime.timedelta(hours=n) if n % 5 else None for n in range(12)],
                  pa.timestamp("ms", "America/New_York")),
    "day": pa.array([NOON.date() if n % 4 else None for n in range(12)]),
    "l": pa.array([[1, 2], [], None, [None], [3], [4, 5, 6], [7], None, [], [8], [9, None], [0]],
                  pa.list_(pa.int16())),
})  # fmt: skip
"""Every column but `id` with nulls; -0.0, NaN; an empty string, empty lists, lists of nulls."""

OTHER = pa.table({
    "k": pa.array(["a", "b", "b", None, "d"]),
    "f": pa.array([0.0, NAN, -2.25, None, 7.0], pa.float32()),
    "x": pa.array([1, 2, 3, 4, None], pa.int64()),
})  # fmt: skip

_KEPT: list[Any] = []


def scan(table: pa.Table) -> Scan:
    """A scan of a table, which stays registered."""
    source = register(table)
    _KEPT.append(source)
    return Scan(source, table.schema)


def col(name: str) -> Column:
    return Column(name)


def lit(value: Any, dtype: pa.DataType | None = None) -> Literal:
    if dtype is None:
        dtype = pa.int32() if type(value) is int else pa.scalar(value).type
    return Literal(value, dtype)


def call(name: str, *args: Any) -> Call:
    return Call(name, tuple(a if isinstance(a, Column | Call | Literal) else lit(a) for a in args))


def agg(function: str, *args: Expr | None, name: str = "") -> Alias:
    first, rest = (args[0], args[1:]) if args else (None, ())
    return Alias(
        Agg(function, first, tuple(arg for arg in rest if arg is not None)), name or function
    )


def agg_of(alias: Alias) -> Agg:
    """The aggregate under a name."""
    assert isinstance(alias.input, Agg)
    return alias.input


def over(
    function: Alias,
    *,
    by: tuple[Expr, ...] = (),
    order: tuple[SortKey, ...] = (),
    frame: Frame | None = None,
) -> Alias:
    return Alias(Over(agg_of(function), by, order, frame), function.name)
