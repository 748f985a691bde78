"""Durations: a number and a unit, or a refusal that lists the units."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fabric.clients.dataframe.durations import UNITS, parse_duration, us
from fabric.errors import PlanError
from fabric.plan.durations import UNITS_US


def test_every_unit() -> None:
    for short, unit in UNITS.items():
        assert parse_duration(f"-12{short}") == (-12, unit)


GRAMMAR = {
    "15 minutes": (15, "minute"), "15m": (15, "minute"), "15min": (15, "minute"),
    "1h30m": (90, "minute"), "1 hour 30 minutes": (90, "minute"), " -2 h ": (-2, "hour"),
    "1d12h": (36, "hour"), "24h": (24, "hour"), "3mo": (3, "month"), "2 years": (2, "year"),
    "1 Week": (1, "week"), "0s": (0, "second"), "-1h30m": (-90, "minute"), "1s1us":
    (1_000_001, "microsecond"),
}  # fmt: skip


@pytest.mark.parametrize("text", GRAMMAR)
def test_one_grammar(text: str) -> None:
    """What verbs of a calendar take, streams take, where it is always as long and not below 0."""
    number, unit = GRAMMAR[text]
    assert parse_duration(text) == (number, unit)
    if number >= 0 and unit not in ("month", "year"):
        assert us(text, "x") == number * UNITS_US[unit]
    else:
        with pytest.raises(PlanError, match=r"is below 0|is not always as long"):
            us(text, "x")


def test_timedeltas() -> None:
    assert parse_duration(timedelta(minutes=15)) == (15, "minute")
    assert parse_duration(timedelta(seconds=-90)) == (-90, "second")
    assert parse_duration(timedelta(days=7)) == (7, "day")
    assert parse_duration(timedelta(0)) == (0, "day")
    assert us(timedelta(minutes=15), "x") == us("15m", "x")


@pytest.mark.parametrize("wrong", ["", "h", "1.5h", "1 2h", "1hours ago", "soon", "--1h", 5, None])
def test_refused(wrong: object) -> None:
    with pytest.raises(PlanError, match=r"is not a valid duration; write a number and a unit"):
        parse_duration(wrong)  # type: ignore[arg-type]


def test_what_could_be_two_things_is_refused() -> None:
    with pytest.raises(PlanError, match="minutes or months; write m or mo"):
        parse_duration("1M")
    with pytest.raises(PlanError, match="mixes units"):
        parse_duration("1mo2d")
