"""The .dt namespace: text that can be pasted, Polars' answers, units that do not exist."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import polars as pl
import pytest

import fabric
from fabric import Expr, col
from fabric.errors import PlanError

D = col("t").dt
METHODS = [
    D.quarter(), D.week(), D.weekday(), D.day_of_year(), D.millisecond(), D.microsecond(),
    D.nanosecond(), D.date_add(1), D.date_sub(col("i")), D.add_months(-1), D.trunc("week"),
    D.month_start(), D.month_end(), D.days_in_month(), D.next_day("monday"),
    D.date_diff(col("u")), D.timestamp_diff("hour", col("u")), D.months_between(col("u")),
    D.months_between(col("u"), round_off=False), D.from_utc_timestamp("Asia/Tokyo"),
    D.to_utc_timestamp("Asia/Tokyo"), D.convert_time_zone("+05:30"), D.replace_time_zone(None),
    D.replace_time_zone("Europe/Berlin"), D.date_format("yyyy"), D.strftime("%d.%m. at %H"),
    D.epoch("d"), D.epoch("s"), D.epoch("ms"), D.epoch(), D.epoch("ns"), D.total_days(),
    D.total_hours(), D.total_minutes(), D.total_seconds(), D.total_milliseconds(),
    D.total_microseconds(), D.date(), col("s").str.to_date("%d/%m/%Y"),
]  # fmt: skip


@pytest.mark.parametrize("expr", METHODS, ids=repr)
def test_text_can_be_pasted(expr: Expr) -> None:
    assert eval(repr(expr), {**vars(fabric.functions), "col": col}).node == expr.node


DATA = {
    "t": [datetime(2024, 2, 29, 23, 59, 59, 123456), None, datetime(1969, 12, 31, 1),
          datetime(2024, 3, 31, 2, 30)],
    "d": [date(2024, 2, 29), None, date(1900, 1, 1), date(2021, 1, 3)],
}  # fmt: skip
SAME = [
    *(lambda c, name=name: getattr(c("t").dt, name)() for name in
      ("quarter", "week", "weekday", "ordinal_day", "millisecond", "microsecond", "nanosecond",
       "date", "days_in_month")),
    lambda c: c("t").dt.epoch("s"),
    lambda c: c("t").dt.epoch("us"),
    lambda c: c("t").dt.timestamp("ms"),
    lambda c: c("d").dt.month_start(),
    lambda c: c("d").dt.month_end(),
    lambda c: c("t").dt.strftime("%Y-%m-%d %H:%M:%S %j %a %B %p"),
    lambda c: c("t").dt.to_string("%F %T"),
    lambda c: (c("t") - datetime(2000, 1, 1)).dt.total_hours(),
    lambda c: (c("t") - datetime(2000, 1, 1)).dt.total_seconds(),
    lambda c: c("t").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo").dt.hour(),
    lambda c: c("t").dt.replace_time_zone("Asia/Tokyo").dt.convert_time_zone("UTC").dt.hour(),
]  # fmt: skip


@pytest.mark.parametrize("build", SAME)
def test_polars_answers_the_same(build: Any) -> None:
    ours = fabric.from_dict(DATA).select(build(col).alias("x")).collect().column("x").to_pylist()
    assert ours == pl.DataFrame(DATA).select(build(pl.col).alias("x"))["x"].to_list()


def test_units_that_do_not_exist() -> None:
    with pytest.raises(PlanError, match="epoch knows no unit 'h'; use one of d, s, ms, us, ns"):
        D.epoch("h")
    frame = fabric.from_dict(DATA)
    with pytest.raises(PlanError, match="no zone 'Europe/Berln'"):
        frame.select(D.convert_time_zone("Europe/Berln"))
    with pytest.raises(PlanError, match="date_format knows no 'YYYY'"):
        frame.select(D.date_format("YYYY"))
