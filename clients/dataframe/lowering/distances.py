"""How far two keys are apart: numbers exactly, times in microseconds."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import types as t

from fabric.clients.dataframe.durations import parse_duration
from fabric.clients.dataframe.literal import to_literal
from fabric.clients.dataframe.types import Tolerance
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.types import is_date, is_timestamp, numeric


def distance(low: plan.Expr, high: plan.Expr, dtype: pa.DataType) -> plan.Expr:
    """``high - low`` as a number, without overflow; raises for keys that can't be measured."""
    if is_date(dtype) or is_timestamp(dtype):
        low, high, dtype = _micros(low), _micros(high), pa.int64()
    number = numeric(dtype)
    if number is None:
        raise PlanError(
            f'join_asof can\'t say how far values of {dtype} are apart; use strategy="backward" or '
            '"forward" without a tolerance'
        )
    if t.is_integer(number):
        wide = pa.decimal128(20, 0)
        low, high = plan.Cast(low, wide), plan.Cast(high, wide)
    return plan.Call("subtract", (high, low))


def is_within(
    low: plan.Expr, high: plan.Expr, tolerance: Tolerance, dtype: pa.DataType
) -> plan.Expr:
    """Whether `high` is at most `tolerance` above `low`."""
    if is_date(dtype) or is_timestamp(dtype):
        number, unit = _interval(tolerance)
        args = (low, plan.Literal(number, pa.int64()), plan.Literal(unit, pa.string()))
        later = plan.Call("add_interval", args)
        stamp = plan.Cast(high, pa.timestamp("us", "UTC")) if is_date(dtype) else high
        return plan.Call("le", (stamp, later))
    good = isinstance(tolerance, int | float) and not isinstance(tolerance, bool) and tolerance >= 0
    if not good:
        raise PlanError(
            f"join_asof needs a tolerance of at least 0 for keys of {dtype}, got {tolerance!r}"
        )
    return plan.Call("le", (distance(low, high, dtype), to_literal(tolerance)))


def _micros(value: plan.Expr) -> plan.Expr:
    return plan.Call("unix_micros", (plan.Cast(value, pa.timestamp("us", "UTC")),))


def _interval(tolerance: Any) -> tuple[int, str]:
    """``"2h"`` or a timedelta as a number and a unit."""
    number, unit = parse_duration(tolerance)
    if number < 0:
        raise PlanError(f"join_asof needs a tolerance of at least 0, got {tolerance!r}")
    return number, unit
