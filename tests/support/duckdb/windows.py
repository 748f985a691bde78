"""Window functions in DuckDB SQL with Spark's meaning.

One job: one `Over` as SQL. Distances of a range are counted in numbers so wide that they never
leave their type.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.expr import Agg, Frame, Literal, Over, SortKey
from fabric.plan.functions import WINDOW_FUNCTIONS
from fabric.plan.types import numeric
from tests.support.duckdb.expressions import (
    Columns,
    aggregate_sql,
    coerced,
    expr_sql,
    literal_sql,
    type_sql,
)


def over_sql(over: Over, columns: Columns, result: pa.DataType) -> str:
    """A window function of type `result` over rows with `columns`."""
    window = _window(over, columns)
    if over.input.function not in WINDOW_FUNCTIONS:
        return aggregate_sql(over.input, columns, result, f" OVER ({window})")
    return f"CAST({_call(over.input, columns, result)} OVER ({window}) AS {type_sql(result)})"


def _call(agg: Agg, columns: Columns, result: pa.DataType) -> str:
    name, constants = agg.function, [arg for arg in agg.args if isinstance(arg, Literal)]
    if agg.input is None:
        return f"{name}({', '.join(str(constant.value) for constant in constants)})"
    value = coerced(expr_sql(agg.input, columns), result)
    if name in ("lag", "lead"):
        offset = constants[0].value if constants else 1
        default = constants[1] if len(constants) > 1 else Literal(None, result)
        return f"{name}({value}, {offset}, CAST({literal_sql(default)} AS {type_sql(result)}))"
    places = ""
    if name == "nth_value":
        places = f", {constants[0].value}"
        constants = constants[1:]
    ignore = " IGNORE NULLS" if constants and constants[0].value else ""
    return f"{name}({value}{places}{ignore})"


def _window(over: Over, columns: Columns) -> str:
    parts = []
    if over.partition_by:
        keys = ", ".join(expr_sql(key, columns).sql for key in over.partition_by)
        parts.append(f"PARTITION BY {keys}")
    frame = over.frame
    if over.order_by:
        measured = frame is not None and frame.unit == "range" and bool(frame.start or frame.end)
        keys = ", ".join(order_sql(key, columns, measured=measured) for key in over.order_by)
        parts.append(f"ORDER BY {keys}")
    if frame is not None:
        parts.append(_frame(frame))
    return " ".join(parts)


def order_sql(key: SortKey, columns: Columns, *, measured: bool = False) -> str:
    """A sort key; when `measured` a number as wide as its kind gets."""
    sql, dtype = expr_sql(key.input, columns)
    if t.is_nested(dtype):
        raise ValueError(f"no SQL for an order of {dtype}")
    number = numeric(dtype) if measured else None
    if number is not None:
        sql = f"CAST({sql} AS {'HUGEINT' if t.is_integer(number) else 'DOUBLE'})"
    direction = "DESC" if key.descending else "ASC"
    return f"{sql} {direction} NULLS {'LAST' if key.nulls_last else 'FIRST'}"


def _frame(frame: Frame) -> str:
    start = "UNBOUNDED PRECEDING" if frame.start is None else _bound(frame.start)
    end = "UNBOUNDED FOLLOWING" if frame.end is None else _bound(frame.end)
    return f"{frame.unit.upper()} BETWEEN {start} AND {end}"


_SIDES: Mapping[bool, str] = {True: "PRECEDING", False: "FOLLOWING"}


def _bound(offset: int) -> str:
    return f"{abs(offset)} {_SIDES[offset < 0]}" if offset else "CURRENT ROW"
