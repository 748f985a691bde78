"""Verbs that are lowered: the same rows embedded, on two agents and on Spark.

What they should be is asked of Polars beside each verb's own tests; here the places are compared.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fabric
from fabric import DataFrame, all, col, count, struct
from fabric import selectors as cs
from fabric.clients.spark.plan.run import execute
from fabric.plan.check import check
from tests.support.compare import unlike

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N_ROWS = 600
START = datetime(2023, 12, 30, 22, 11)
ROWS = pa.table(
    {
        "i": [n % 50 for n in range(N_ROWS)],
        "k": [None if n % 7 == 0 else f"k{n % 3}" for n in range(N_ROWS)],
        "x": [None if n % 11 == 0 else n % 13 / 4 for n in range(N_ROWS)],
        "l": [[n % 5, n % 2] for n in range(N_ROWS)],
        "t": [None if n == 9 else START + timedelta(minutes=37 * n) for n in range(N_ROWS)],
        "d": [START.date() + timedelta(days=n % 100) for n in range(N_ROWS)],
    }
)


def _large(rows: pa.Table) -> pa.Table:
    kept = rows.filter(pc.greater(rows["i"], 20))
    return pa.table({"y": pc.multiply(kept["x"], 2.0), "i": kept["i"]})


async def _asked(row: dict[str, Any]) -> list[dict[str, float]]:
    await asyncio.sleep(0)
    return [{"y": 2.0 * row["x"]}] * (row["i"] % 3) if row["x"] is not None else []


async def _asked_together(rows: pa.Table) -> dict[str, pa.Array]:
    await asyncio.sleep(0)
    return {"y": pc.multiply(rows["x"], 2.0)}


def _longest(rows: pa.Table) -> dict[str, list[object]]:
    top = sorted((x for x in rows["x"].to_pylist() if x is not None), reverse=True)[:2]
    return {"k": [rows["k"][0].as_py()] * len(top), "n": [rows.num_rows] * len(top), "x": top}


Verb = Callable[[DataFrame], DataFrame]
VERBS: dict[str, Verb] = {
    "sample of a fraction": lambda df: df.sample(0.3, seed=5),
    "sample of n": lambda df: df.sample(n=100, seed=5),
    "sample with replacement": lambda df: df.sample(1.5, seed=5, with_replacement=True),
    "map_batches": lambda df: df.map_batches(_large, {"i": "int64", "y": "float64"}),
    "map_async": lambda df: df.map_async(_asked, {"y": "float64"}, keep=["i", "k"], retry=3),
    "map_async of batches": lambda df: df.map_async(
        _asked_together, {"y": "float64"}, batch=20, ordered=False
    ),
    "map_groups": lambda df: df.group_by("k").map_groups(
        _longest, {"k": "string", "n": "int64", "x": "float64"}
    ),
    "windows of time": lambda df: df.group_by_dynamic("t", every="15m", group_by="k").agg(
        n=count()
    ),
    "overlapping windows": lambda df: df.group_by_dynamic(
        "t", every="2h", period="5h", offset="-10m", closed="right"
    ).agg(count().alias("n"), col("i").sum()),
    "windows of dates": lambda df: df.group_by_dynamic("d", every="1w").agg(n=count()),
    "quarters": lambda df: df.group_by_dynamic("t", every="3mo", label="right").agg(n=count()),
    "buckets": lambda df: df.select("i", b=col("t").dt.truncate("45 minutes")),
    "ranges of time": lambda df: df.select(
        "k", "t", n=count().over("k", order_by="t", range=("-3h", "1h"))
    ),
    "replace": lambda df: df.select("i", k=col("k").replace({"k1": "one", None: "none"})),
    "cut": lambda df: df.select("x", c=col("x").cut([0.5, 2]), q=col("i").qcut(3, ["a", "b", "c"])),
    "null keys": lambda df: df.join(
        df.group_by("k", "x").agg(n=count()), on=["k", "x"], how="full", nulls_equal=True
    ),
    "null keys left out": lambda df: df.join(
        df.filter(col("k").is_null()).select("k"), on="k", how="anti", nulls_equal=True
    ),
    "a condition of two sides": lambda df: df.join(
        df.group_by("i").agg(n=count()).rename({"i": "j"}), col("i") + 1 == col("j"), "left"
    ),
    "several columns": lambda df: df.select(
        "k", (cs.numeric() * 2).name.suffix("_twice"), all().exclude("l", "x").name.prefix("a_")
    ),
    "fields by dots": lambda df: df.with_columns(s=struct(i=col("i"), k=col("k"))).select(
        "s.k", j=col("s.i") + 1
    ),
    "sample of n with replacement": lambda df: df.sample(n=900, seed=5, with_replacement=True),
}


@pytest.mark.parametrize("name", VERBS)
def test_same_rows(
    name: str, embedded: fabric.Session, session: fabric.Session, spark: SparkSession
) -> None:
    verb = VERBS[name]
    expected = verb(embedded.read_arrow(ROWS)).collect()
    assert expected.num_rows
    with session.submit(verb(session.read_arrow(ROWS)), parallelism=4) as job:
        assert not unlike(job.wait().collect(), expected)
    on_spark = execute(check(verb(DataFrame(ROWS)).plan).root, spark)
    assert on_spark.schema.equals(expected.schema)
    assert not unlike(on_spark, expected)


def test_kept_rows_lie_with_the_agents_as_long_as_they_are_read(session: fabric.Session) -> None:
    kept = session.read_arrow(ROWS).sample(0.5).cache()
    assert kept.count() == len(kept.collect()) == kept.filter(col("i") >= 0).count()
    (name,) = [one for one in session.datasets() if one.startswith("cache")]
    later = kept.select("i")
    del kept
    gc.collect()
    assert later.count()
    assert name in session.datasets()
    del later
    gc.collect()
    assert session.read_arrow(ROWS).count() == N_ROWS
    assert name not in session.datasets()


SAMPLES: dict[str, Verb] = {
    "fraction": lambda df: df.sample(0.5),
    "n": lambda df: df.sample(n=2000),
    "with replacement": lambda df: df.sample(n=4000, with_replacement=True),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_unseeded_samples_are_fair(
    name: str, embedded: fabric.Session, session: fabric.Session, spark: SparkSession
) -> None:
    """Each task's rows are as likely as the others', however few the task has."""
    table = pa.table({"i": list(range(4000))})
    uneven = pa.Table.from_batches(
        [table.slice(0, 100).to_batches()[0], table.slice(100).to_batches()[0]]
    )
    verb = SAMPLES[name]
    found = [verb(embedded.read_arrow(uneven)).collect()]
    with session.submit(verb(session.read_arrow(uneven)), parallelism=4) as job:
        found.append(job.wait().collect())
    found.append(execute(check(verb(DataFrame(uneven)).plan).root, spark))
    for rows in found:
        drawn = set(rows["i"].to_pylist())
        share = len(drawn) / 4000
        assert 0.44 < share < 0.7  # 0.5, or 1 - 1/e
        first = sum(i < 100 for i in drawn) / 100
        assert share - 0.3 < first < share + 0.3
