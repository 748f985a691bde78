"""``//``, ``%`` and ``**`` against Python's own, and zones against `zoneinfo`."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow import compile_expr
from fabric.plan.expr import Call, Column
from fabric.plan.zones import zone_rules

INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-20, 20)
FLOATS = st.floats(-1e9, 1e9) | st.sampled_from([0.0, -0.0, 0.1, 0.5, math.inf, -math.inf, 7.5])


def both(a: float, b: float, dtype: pa.DataType) -> tuple[float, float]:
    batch = pa.record_batch({"a": pa.array([a], dtype), "b": pa.array([b], dtype)})
    calls = (Call(name, (Column("a"), Column("b"))) for name in
             ("floor_quotient", "floor_remainder"))  # fmt: skip
    quotient, rest = (compile_expr(call, batch.schema)(batch)[0].as_py() for call in calls)
    return quotient, rest


@given(a=INTEGERS, b=INTEGERS.filter(bool))
def test_integers(a: int, b: int) -> None:
    if (a, b) != (-(1 << 63), -1):
        assert both(a, b, pa.int64()) == (a // b, a % b)


@given(a=INTEGERS, b=st.integers(0, 70))
def test_powers(a: int, b: int) -> None:
    batch = pa.record_batch({"a": pa.array([a], pa.int64()), "b": pa.array([b], pa.int64())})
    power = compile_expr(Call("exact_power", (Column("a"), Column("b"))), batch.schema)
    if -(1 << 63) <= a**b < 1 << 63:
        assert power(batch)[0].as_py() == a**b
    else:
        with pytest.raises(ExpressionError, match="overflow"):
            power(batch)


@given(a=FLOATS, b=FLOATS.filter(lambda b: b != 0 and abs(b) > 1e-3))
def test_floats(a: float, b: float) -> None:
    for ours, theirs in zip(both(a, b, pa.float64()), (a // b, a % b), strict=True):
        same = math.copysign(1, ours) == math.copysign(1, theirs) and ours == theirs
        assert same or (math.isnan(ours) and math.isnan(theirs))


@given(
    at=st.datetimes(datetime(1975, 1, 1), datetime(2037, 1, 1)),
    zone=st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "UTC"]),
)
def test_times_that_clocks_show_twice_or_skip(at: datetime, zone: str) -> None:
    """The first and the last time, as `fold` tells them."""
    micros = np.array([(at - datetime(1970, 1, 1)) // timedelta(microseconds=1)])
    rules = zone_rules(zone)
    wanted = [at.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) for fold in (0, 1)]
    shown = {time.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for time in wanted}
    numbers = [(time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
               for time in wanted]  # fmt: skip
    assert int(rules.to_utc(micros)[0]) == numbers[0]
    if shown == {at}:
        assert int(rules.later(micros)[0]) == numbers[1]
    else:
        assert int(rules.from_utc(rules.to_utc(micros))[0]) != int(micros[0])
