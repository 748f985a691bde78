"""Decimal arithmetic by Spark's rules: exact, then rounded half up to the result's scale."""

from __future__ import annotations

from fabric.errors import PlanError
from fabric.operators.expressions.arrow.bound import Bound, Request


def arithmetic(request: Request) -> Bound:
    raise PlanError("decimal arithmetic is not there yet")
