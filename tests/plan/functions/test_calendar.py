"""Constants that calendar functions refuse."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.plan.expr import Call, Column, Expr, Literal
from fabric.plan.schema import type_of

SCHEMA = pa.schema([("d", pa.date32()), ("s", pa.string()), ("n", pa.int64())])
D, S, N = Column("d"), Column("s"), Column("n")


def text(value: str) -> Literal:
    return Literal(value, pa.string())


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (Call("trunc", (D, text("day"))), "trunc knows no unit 'day'; use one of week, month"),
        (Call("next_day", (D, text("mon"))), 'knows no unit .*next_day\\("monday"\\)'),
        (Call("next_day", (D, S)), "needs a constant as argument 1"),
        (Call("timestamp_diff", (text("years"), D, D)), 'write: col.*"year"'),
        (Call("last_day", (S,)), "last_day takes a date or timestamp, got string"),
        (Call("date_add", (D, S)), "date_add takes a whole number, got string"),
        (Call("months_between", (D, D, N)), "takes true or false, got int64"),
        (Call("make_date", (N, N, D)), "make_date takes a whole number, got date32"),
        (Call("make_timestamp", (N, N, N, N, N, S)), "takes a number of seconds, got string"),
    ],
)
def test_refusals(expr: Expr, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        type_of(expr, SCHEMA)
