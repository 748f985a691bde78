"""Durations: a number and a unit, or a refusal that lists the units."""

from __future__ import annotations

import pytest

from fabric.clients.dataframe.durations import UNITS, parse_duration
from fabric.errors import PlanError


def test_every_unit() -> None:
    for short, unit in UNITS.items():
        assert parse_duration(f"-12{short}") == (-12, unit)


@pytest.mark.parametrize("wrong", ["", "h", "1.5h", "2 h", "1hour", "1h30m"])
def test_refused(wrong: str) -> None:
    with pytest.raises(PlanError, match=r"is no duration; write a number and a unit: us"):
        parse_duration(wrong)
