"""Times of a zone beside times without one: the same rows and types embedded and on Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import fabric
from fabric import DataFrame, col, lit, when

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STAMP = pa.timestamp("us", "Europe/Berlin")
Z = fabric.from_arrow(
    pa.table(
        {"t": pa.array([1_705_357_800_000_000, 1_721_082_600_000_000, None], STAMP), "v": [1, 2, 3]}
    )
)
N = fabric.from_arrow(
    pa.table({"t": pa.array([datetime(2024, 1, 15, 23, 30), datetime(2024, 7, 16)]), "w": [3, 4]})
)
D = fabric.from_arrow(pa.table({"t": pa.array([date(2024, 1, 15)]), "w": [9]}))
NOON = lit(datetime(2024, 1, 1, 12))


@pytest.mark.parametrize(
    "build",
    [
        lambda: Z.select("t").union(N.select("t")),
        lambda: Z.select("t").union(D.select("t")),
        lambda: Z.join(N, on="t"),
        lambda: Z.join(N, on="t", how="full"),
        lambda: Z.select("v", day=col("t").dt.date()).join(D, left_on="day", right_on="t"),
        lambda: Z.filter(col("t") == lit(datetime(2024, 1, 15, 23, 30))),
        lambda: Z.filter(col("t").is_in([datetime(2024, 1, 15, 23, 30)])),
        lambda: Z.select(x=when(col("v") > 1).then("t").otherwise(NOON)),
        lambda: Z.select(x=col("t").fill_null(NOON)),
        lambda: Z.select("v", x=col("t").lag(1, default=NOON).over(order_by="v")),
        lambda: Z.agg(a=col("t").min(), b=col("t").max(), c=col("t").count_distinct()),
        lambda: Z.group_by(day=col("t").dt.truncate("1d")).agg(n=fabric.count()),
        lambda: Z.select(x=fabric.hash("t")),
    ],
)
def test_the_same_rows_in_both_places(build: Callable[[], DataFrame], spark: SparkSession) -> None:
    ours, theirs = build().collect(), build().collect(engine="spark")
    assert ours.schema.types == theirs.schema.types
    assert sorted(map(str, ours.to_pylist())) == sorted(map(str, theirs.to_pylist()))


def test_what_has_no_zone_is_what_clocks_show() -> None:
    rows = Z.select(x=col("t").fill_null(NOON)).collect().column("x").to_pylist()
    assert rows[2].isoformat() == "2024-01-01T12:00:00+01:00"
