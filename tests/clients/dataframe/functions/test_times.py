"""Times made of numbers."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

import fabric
from fabric import functions
from fabric.errors import PlanError


def test_times_of_numbers() -> None:
    frame = fabric.from_dict({"y": [2024, None], "n": [86_400, -1]})
    found = frame.select(
        functions.make_date("y", 2, 29).alias("d"),
        functions.make_timestamp("y", 2, 29, 1, 2, 3.5).alias("t"),
        functions.from_epoch("n").alias("s"),
        functions.from_epoch("n", "ms").alias("ms"),
    )
    assert found.collect().to_pydict() == {
        "d": [date(2024, 2, 29), None],
        "t": [datetime(2024, 2, 29, 1, 2, 3, 500_000, UTC), None],
        "s": [datetime(1970, 1, 2, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)],
        "ms": [datetime(1970, 1, 1, 0, 1, 26, 400_000, UTC),
               datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)],
    }  # fmt: skip


def test_differences() -> None:
    frame = fabric.from_dict({"a": [date(2024, 1, 31)], "b": [date(2024, 3, 1)]})
    found = frame.select(
        functions.date_diff("b", "a").alias("days"),
        functions.timestamp_diff("month", "a", "b").alias("months"),
    )
    assert found.collect().to_pydict() == {"days": [30], "months": [1]}


def test_units_that_do_not_exist() -> None:
    with pytest.raises(PlanError, match="from_epoch knows no unit 'h'; use one of d, s, ms, us"):
        functions.from_epoch("n", "h")
