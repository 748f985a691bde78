"""Windows of streams by the clocks of a zone, beside the same windows of a table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import fabric
from fabric import DataFrame, col, streams
from fabric.errors import PlanError

CHANGES = {
    "Europe/Berlin": (datetime(2024, 3, 30, 20), datetime(2024, 10, 26, 20)),
    "Australia/Lord_Howe": (datetime(2024, 4, 6, 6), datetime(2024, 10, 5, 6)),
    "America/Havana": (datetime(2024, 3, 10, 1), datetime(2024, 11, 3, 1)),  # at midnight
    "America/Sao_Paulo": (datetime(2018, 2, 17, 20), datetime(2018, 11, 3, 20)),  # at midnight
    "+05:30": (datetime(2024, 1, 1), datetime(2030, 1, 1)),
}
Rows = list[tuple[datetime, datetime, str, int, int]]


def times(zone: str, seed: int) -> pa.Table:
    """Rows around both changes of clocks in a year, in order; those of a day and a half."""
    rng = Random(seed)
    at = [
        begin + timedelta(seconds=rng.randrange(36 * 3600), microseconds=rng.randrange(9))
        for begin in CHANGES[zone]
        for _ in range(200)
    ]
    naive = pa.array(sorted(at), pa.timestamp("us"))
    zoned = naive.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us", zone))
    keys = [rng.choice("ab") for _ in at]
    return pa.table({"t": zoned, "k": keys, "v": list(range(len(at)))})


def rows_of(df: DataFrame, names: tuple[str, str]) -> Rows:
    found = df.collect().to_pylist()
    start, end = names
    return sorted(
        (row[start].astimezone(UTC), row[end].astimezone(UTC), row["k"], row["n"], row["s"])
        for row in found
    )


def by_table(table: pa.Table, every: str) -> Rows:
    """What `group_by_dynamic` says, each window with the beginning of the next as its end."""
    groups = fabric.from_arrow(table).group_by_dynamic("t", every=every, group_by="k")
    found = groups.agg(n=fabric.count(), s=col("v").sum())
    ends = fabric.from_arrow(table).group_by_dynamic("t", every=every, label="right", group_by="k")
    right = ends.agg(n=fabric.count(), s=col("v").sum()).rename({"t": "end"})
    assert found.count() == right.count()
    both = zip(
        sorted(found.collect().to_pylist(), key=lambda row: (row["k"], row["t"])),
        sorted(right.collect().to_pylist(), key=lambda row: (row["k"], row["end"])),
        strict=True,
    )
    return sorted(
        (a["t"].astimezone(UTC), b["end"].astimezone(UTC), a["k"], a["n"], a["s"]) for a, b in both
    )


@pytest.mark.parametrize("zone", CHANGES)
@pytest.mark.parametrize("every", ["1 day", "2 days"])
@pytest.mark.parametrize("early", [False, True], ids=["once", "each"])
def test_days_are_those_of_the_zone(zone: str, every: str, early: bool) -> None:
    table = times(zone, 7)
    rows = (
        streams.replay(fabric.from_arrow(table), "t").with_watermark("t", "1 minute").group_by("k")
    )
    trigger = {"updates": True, "lateness": "1 hour"} if early else {}
    found = rows.window(every, **trigger).agg(n=fabric.count(), s=col("v").sum())
    if early:
        found = last_of(found.changes())
    assert rows_of(found, ("window_start", "window_end")) == by_table(table, every)


def last_of(changes: DataFrame) -> DataFrame:
    """What is left of a stream of changes."""
    kept: dict[tuple[str, datetime], dict[str, object]] = {}
    for row in changes.collect().to_pylist():
        kind = row.pop("row_kind")
        if kind in ("+I", "+U"):
            kept[row["k"], row["window_start"]] = row
    return fabric.from_dicts(list(kept.values()))


@pytest.mark.parametrize("zone", CHANGES)
def test_assigned_windows_and_sliding_days(zone: str) -> None:
    table = times(zone, 8)
    rows = streams.replay(fabric.from_arrow(table), "t").with_watermark("t", "1 minute")
    assigned = rows.assign_windows("1 day").group_by("k", "window_start", "window_end")
    found = assigned.agg(n=fabric.count(), s=col("v").sum())
    assert rows_of(found, ("window_start", "window_end")) == by_table(table, "1 day")
    here = ZoneInfo(zone) if "/" in zone else None
    sliding = rows.group_by("k").window("2 days", slide="1 day").agg(n=fabric.count())
    for row in sliding.collect().to_pylist():
        lasts = row["window_end"] - row["window_start"]
        assert timedelta(hours=46) < lasts < timedelta(hours=50)
        start, end = row["window_start"], row["window_end"]
        inside = [t for t, k in zip(table["t"].to_pylist(), table["k"].to_pylist(), strict=True)
                  if start <= t < end and k == row["k"]]  # fmt: skip
        assert len(inside) == row["n"]
        if here is not None and zone != "America/Sao_Paulo":
            assert start.astimezone(here).hour in (0, 1)  # Havana skips midnight


def test_a_window_that_would_begin_amid_an_hour_shown_twice_is_refused() -> None:
    table = times("Europe/Berlin", 9)
    rows = streams.replay(fabric.from_arrow(table), "t").with_watermark("t")
    with pytest.raises(PlanError, match=r"show 19\d\d-\S+ 0\d:\d\d:00 twice.*convert_time_zone"):
        rows.group_by("k").window("7 minutes").agg(n=fabric.count())
    half = rows.group_by("k").window("90 minutes").agg(n=fabric.count(), s=col("v").sum())
    starts = [(start, *rest) for start, _, *rest in rows_of(half, ("window_start", "window_end"))]
    assert starts == [(start, *rest) for start, _, *rest in by_table(table, "90m")]
