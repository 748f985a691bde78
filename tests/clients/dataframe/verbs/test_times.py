"""Buckets, windows and ranges of time, beside Polars and DuckDB."""

from __future__ import annotations

import builtins
import math
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from fabric import DataFrame, col, count, date_range, streams, sum
from fabric.errors import PlanError

RANDOM = Random(3)
TIMES = [datetime(1969, 12, 20) + timedelta(minutes=RANDOM.randrange(60_000)) for _ in range(300)]
DATA = pa.table(
    {
        "t": pa.array([*TIMES, datetime(2024, 2, 29, 10, 30)], pa.timestamp("us")),
        "d": [time.date() for time in [*TIMES, datetime(2024, 2, 29)]],
        "k": [n % 3 for n in range(301)],
        "x": list(range(301)),
    }
)
EVERY = ["15m", "7m", "1h", "6h", "1d", "3d", "1w", "2w", "1mo", "3mo", "1q", "1y", "90s"]


@pytest.mark.parametrize("every", EVERY)
def test_truncate_beside_polars(every: str) -> None:
    expected = pl.from_arrow(DATA).select("x", t=pl.col("t").dt.truncate(every)).sort("x")
    found = DataFrame(DATA).select("x", t=col("t").dt.truncate(every)).sort("x")
    assert found.to_dicts() == expected.to_dicts()


WINDOWS: dict[str, dict[str, Any]] = {
    **{every: {"every": every} for every in EVERY},
    "sliding": {"every": "15m", "period": "1h"},
    "sliding days": {"every": "1d", "period": "3d"},
    "not a multiple": {"every": "20m", "period": "50m"},
    "gaps": {"every": "1h", "period": "15m"},
    "months": {"every": "1mo", "period": "3mo"},
    "moved": {"every": "1h", "offset": "10m"},
    "moved and sliding": {"every": "6h", "period": "1d", "offset": "-2h"},
    "closed right": {"every": "1h", "closed": "right"},
    "closed right and sliding": {"every": "1h", "period": "2h", "closed": "right"},
    "label right": {"every": "1h", "label": "right"},
    "moved days, label right": {"every": "1d", "offset": "3h", "label": "right"},
    "groups": {"every": "1d", "group_by": "k"},
    "timedelta": {"every": timedelta(hours=2)},
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_beside_polars(name: str) -> None:
    how = WINDOWS[name]
    by = [how["group_by"]] if "group_by" in how else []
    sorted_ = pl.from_arrow(DATA).sort("t")
    expected = sorted_.group_by_dynamic("t", **how).agg(n=pl.len(), x=pl.col("x").sum())
    found = DataFrame(DATA).group_by_dynamic("t", **how).agg(n=count(), x=sum("x"))
    assert found.columns == [*by, "t", "n", "x"]
    ours, theirs = found.sort(*by, "t").to_dicts(), expected.sort(*by, "t").to_dicts()
    if "period" not in how or name == "gaps":
        assert ours == theirs
    else:  # Polars leaves out windows that begin before a row with no other before it
        assert [row for row in theirs if row not in ours] == []


@pytest.mark.parametrize(
    ("every", "period", "offset", "closed"),
    [(15, 60, 0, "left"), (20, 50, 0, "left"), (360, 1440, -120, "left"), (60, 120, 0, "right")],
)
def test_overlapping_windows_by_hand(every: int, period: int, offset: int, closed: Any) -> None:
    """In minutes: each row in each window that it lies in."""
    minute, epoch = timedelta(minutes=1), datetime(1970, 1, 1)
    expected: Counter[datetime] = Counter()
    for time in DATA["t"].to_pylist():
        minutes = (time - epoch) / minute
        first = math.floor((minutes - period - offset) / every) - 1
        for number in range(first, first + period // every + 4):
            start = number * every + offset
            inside = start <= minutes < start + period
            if closed == "right":
                inside = start < minutes <= start + period
            if inside:
                expected[epoch + start * minute] += 1
    found = DataFrame(DATA).group_by_dynamic(
        "t", every=every * minute, period=f"{period}m", offset=f"{offset} minutes", closed=closed
    )
    counted = {row["t"]: row["n"] for row in found.agg(n=count()).to_dicts()}
    assert counted == expected


@pytest.mark.parametrize("label", ["left", "right"])
def test_moved_windows_of_months(label: Any) -> None:
    frame = DataFrame({"t": [datetime(2024, 3, 15), datetime(2024, 3, 30), datetime(2024, 2, 29)]})
    found = frame.group_by_dynamic("t", every="1mo", period="2mo", offset="-1h", label=label)
    windows = {  # by hand: from the last hour of a month to the last but one of the next but one
        (datetime(2023, 12, 31, 23), datetime(2024, 2, 29, 23)): 1,
        (datetime(2024, 1, 31, 23), datetime(2024, 3, 31, 23)): 3,
        (datetime(2024, 2, 29, 23), datetime(2024, 4, 30, 23)): 2,
    }
    expected = {ends[label == "right"]: n for ends, n in windows.items()}
    assert {row["t"]: row["n"] for row in found.agg(n=count()).to_dicts()} == expected


def test_windows_of_dates() -> None:
    for how in ({"every": "1w"}, {"every": "2d"}, {"every": "1mo"}):
        expected = pl.from_arrow(DATA).sort("d").group_by_dynamic("d", **how).agg(n=pl.len())
        found = DataFrame(DATA).group_by_dynamic("d", **how).agg(n=count())
        assert found.dtypes["d"] == pa.date32()
        assert found.sort("d").to_dicts() == expected.sort("d").to_dicts()
    sliding = DataFrame(DATA).group_by_dynamic("d", every="1d", period="2d").agg(n=count())
    assert sliding.dtypes["d"] == pa.date32()
    assert builtins.sum(sliding.collect()["n"].to_pylist()) == 2 * len(DATA)


def test_windows_on_tables_are_those_of_streams() -> None:
    rows = streams.generator(
        rows_per_s=100_000, n_rows=3000, start=datetime(2024, 1, 1, tzinfo=UTC)
    ).with_watermark("ts", "1 ms")
    windows = rows.group_by().window("7 ms").agg(n=count()).collect()
    found = rows.collect()
    table = DataFrame(found).group_by_dynamic("ts", every="7ms").agg(n=count())
    assert dict(
        zip(windows["window_start"].to_pylist(), windows["n"].to_pylist(), strict=True)
    ) == {row["ts"]: row["n"] for row in table.to_dicts()}


@pytest.mark.parametrize("ends", [("-1h", 0), ("-1 day", "2h"), (timedelta(hours=-3), None)])
def test_ranges_of_time_beside_duckdb(ends: Any) -> None:
    found = DataFrame(DATA).with_columns(
        s=col("x").sum().over("k", order_by="t", range=ends),
        n=count().over("k", order_by="t", range=ends),
    )

    def sql(end: Any, way: str) -> str:
        if end is None:
            return f"unbounded {way}"
        if end == 0:
            return "current row"
        length = end if isinstance(end, timedelta) else {"-1h": timedelta(hours=-1),
            "-1 day": timedelta(days=-1), "2h": timedelta(hours=2)}[end]  # fmt: skip
        way = "preceding" if length < timedelta(0) else "following"
        return f"interval '{abs(length).total_seconds()} seconds' {way}"

    frame = f"range between {sql(ends[0], 'preceding')} and {sql(ends[1], 'following')}"
    window = f"over (partition by k order by t {frame})"
    with duckdb.connect() as connection:
        connection.register("data", DATA)
        asked = f"select x, sum(x) {window}, count(*) {window} from data order by x"
        expected = connection.sql(asked).fetchall()
    rows = [(row["x"], row["s"], row["n"]) for row in found.sort("x").to_dicts()]
    assert rows == [(x, int(s), n) for x, s, n in expected]


@pytest.mark.parametrize("every", ["1d", "1w", "1mo", "5mo", "1y", "36h", "1d12h"])
@pytest.mark.parametrize("closed", ["both", "left", "right", "none"])
def test_date_range_beside_polars(every: str, closed: Any) -> None:
    start, end = datetime(2023, 1, 29), datetime(2024, 5, 29)
    expected = pl.datetime_range(start, end, every, closed=closed, eager=True).to_list()
    assert date_range(start, end, every, closed=closed).collect()["date"].to_pylist() == expected
    if "h" not in every:
        days = pl.date_range(start.date(), end.date(), every, closed=closed, eager=True).to_list()
        found = date_range(start.date(), end.date(), every, closed=closed, name="day")
        assert found.collect()["day"].to_pylist() == days


@pytest.mark.parametrize("every", ["1d", "2d", "1w", "24h", "12h", "1d12h", timedelta(1), "1mo"])
@pytest.mark.parametrize("month", [3, 10])
def test_date_range_goes_by_the_clocks_of_its_zone(every: Any, month: int) -> None:
    zone = ZoneInfo("Europe/Berlin")
    start, end = (datetime(2024, month + i, 12, 12, tzinfo=zone) for i in range(2))
    expected = pl.datetime_range(start, end, every, eager=True).to_list()
    found = date_range(start, end, every).collect()["date"].to_pylist()
    assert [time.isoformat() for time in found] == [time.isoformat() for time in expected]


def test_date_range_ends_with_the_years() -> None:
    found = date_range(datetime(9999, 12, 30, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC), "1d")
    assert found.collect().num_rows == 2


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda f: f.group_by_dynamic("t", every="0h"), "every must be above 0"),
        (lambda f: f.group_by_dynamic("t", every="soon"), "not a valid duration"),
        (lambda f: f.group_by_dynamic("x", every="1h"), "needs a date or a time, and 'x' is int64"),
        (lambda f: f.group_by_dynamic("tt", every="1h"), r'no column "tt"; did you mean "t"\?'),
        (lambda f: f.group_by_dynamic("t", every="1mo", period="5d"), "must both be months"),
        (lambda f: f.group_by_dynamic("t", every="1us", period="1d"), "windows; take a longer"),
        (lambda f: f.group_by_dynamic("t", every="1h", closed="both"), "closed='both'"),
        (lambda _: streams.generator(rows_per_s=1).group_by_dynamic("ts", every="15m"),
         r'write: \.with_watermark\("ts", "5 seconds"\)\.group_by\(\.\.\.\)\.window\("15m"\)'),
        (lambda f: f.join_asof(streams.generator(rows_per_s=1), left_on="t", right_on="ts"),
         r"is of two streams, or of two tables; .*stream\.join\(table"),
        (lambda f: f.select(col("x").sum().over(order_by="t", range=("-1mo", 0))), "a month is"),
        (lambda f: f.select(col("x").sum().over(order_by=["t", "x"], range=("-1h", 0))), "one key"),
        (lambda _: date_range(date(2024, 1, 1), 5), "two dates or two datetimes"),
        (lambda _: date_range(date(2024, 1, 1), date(2025, 1, 1), "-1d"), "a distance above 0"),
        (lambda _: date_range(datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1), "1d"),
         "two times with a zone or two without"),
        (lambda _: date_range(datetime(1, 1, 1), datetime(9999, 1, 1), "1us"), "more than"),
    ],
)  # fmt: skip
def test_refused(wrong: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        wrong(DataFrame(DATA))


@pytest.mark.parametrize("key", ["a", "s"])
def test_a_range_of_time_over_no_time_is_refused(key: str) -> None:
    df = DataFrame({"a": [1, 2], "s": ["2024-01-01", "2024-01-02"]})
    total = col("a").sum().over(order_by=key, range=("-15m", 0))
    with pytest.raises(PlanError, match=rf'needs a time to order by, and col\("{key}"\) is'):
        df.select("a", t=total)
