"""Timestamps written by a pattern, beside `strftime`."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fabric.operators.expressions.arrow.datetime_patterns import writer

TIMES = st.lists(st.none() | st.datetimes(datetime(1000, 1, 1)), min_size=1)
PATTERN = "yyyy yy MM MMM MMMM dd DDD EEE EEEE HH hh a mm ss SSSSSS"
FORMAT = "%Y %y %m %b %B %d %j %a %A %H %I %p %M %S %f"


@given(times=TIMES)
def test_beside_strftime(times: list[datetime | None]) -> None:
    written = writer(PATTERN)(pa.array(times, pa.timestamp("us"))).to_pylist()
    assert written == [time and time.strftime(FORMAT) for time in times]


def test_text_and_signs() -> None:
    midnight = pa.array([0], pa.timestamp("us"))
    assert writer("'at' h 'o''clock' -- ''")(midnight).to_pylist() == ["at 12 o'clock -- '"]
    assert writer("")(midnight).to_pylist() == [""]
