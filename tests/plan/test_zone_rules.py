"""Rules of zones beside `zoneinfo`, which answers one time at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.plan.zones import zone_info, zone_rules

ZONES = ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia"]
EPOCH = datetime(1970, 1, 1)
SECOND = timedelta(seconds=1)


def micros(time: datetime) -> int:
    return (time - EPOCH) // SECOND * 1_000_000


@settings(deadline=None)
@given(
    zone=st.sampled_from(ZONES),
    time=st.datetimes(datetime(1800, 1, 1), datetime(2500, 1, 1)).map(
        lambda time: time.replace(microsecond=0)
    ),
)
def test_beside_zoneinfo(zone: str, time: datetime) -> None:
    here = zone_info(zone)
    shown = time.replace(tzinfo=UTC).astimezone(here).replace(tzinfo=None)
    rules = zone_rules(zone)
    assert rules.from_utc(np.array([micros(time)])).tolist() == [micros(shown)]
    local = time.replace(tzinfo=here)  # fold 0: the first of two, and in a gap the earlier offset
    instant = local.astimezone(UTC).replace(tzinfo=None)
    assert rules.to_utc(np.array([micros(time)])).tolist() == [micros(instant)]


@pytest.mark.parametrize("zone", ZONES)
def test_rules_go_on_for_ever(zone: str) -> None:
    cycle = np.int64(146_097) * 86_400_000_000
    times = np.arange(0, 400) * np.int64(1_000_000_000_000) * 30 + micros(datetime(2107, 1, 1))
    rules = zone_rules(zone)
    for n in (1, 7, 300):
        assert (rules.from_utc(times + n * cycle) - n * cycle == rules.from_utc(times)).all()
        assert (rules.to_utc(times + n * cycle) - n * cycle == rules.to_utc(times)).all()


def test_offsets() -> None:
    rules = zone_rules("-03:30")
    assert rules.from_utc(np.array([0])).tolist() == [-3.5 * 3600e6]
    assert rules.to_utc(np.array([0])).tolist() == [3.5 * 3600e6]
