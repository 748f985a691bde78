"""Rows of streams with the nearest ones of others, embedded and on agents, beside those of tables.

What tables answer is held to DuckDB here once, and elsewhere (`tests/golden`).
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fabric
from fabric import DataFrame, Session, col, count, streams
from fabric.errors import PlanError
from fabric.operators.streams import two_streams
from fabric.plan.stream_facts import stream_of
from tests.integration.test_stream_joins import (
    ORDERS,
    SECOND,
    START,
    US,
    at_once,
    found,
    generated,
    lone,
    replayed,
    stream,
)
from tests.support.changes import settled
from tests.support.held import held
from tests.support.wait import wait_until

__all__ = ["lone"]  # a fixture


def prices(seed: int = 3, n_rows: int = 300) -> pa.Table:
    """Versions of some keys, at most one of a key at a time, in order but for half a second."""
    rng = Random(seed)
    times = [START + i * SECOND // 7 - rng.randint(0, SECOND // 2) for i in range(n_rows)]
    return pa.table({
        "k": pa.array([rng.choice([None, *range(10)]) for _ in times], pa.int64()),
        "since": pa.array(times, US),
        "price": pa.array(range(n_rows), pa.int64()),
        "op": pa.array([rng.choice(["put", "put", "delete", None]) for _ in times]),
    })  # fmt: skip


PRICES = prices()
AS_OF: list[dict[str, Any]] = [
    {"strategy": "backward"},
    {"strategy": "backward", "tolerance": "300 ms", "allow_exact_matches": False},
    {"strategy": "forward", "tolerance": "1 second"},
    {"strategy": "nearest", "tolerance": "700 ms"},
]


def sides(session: Session) -> list[tuple[DataFrame, DataFrame]]:
    """Orders and prices as streams, and as tables."""
    return [
        (stream(session, ORDERS, "ts"), stream(session, PRICES, "since")),
        (session.read_arrow(ORDERS), session.read_arrow(PRICES)),
    ]


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("deleted", [None, "delete"])
def test_the_version_as_of_a_row(lone: Session, how: Any, deleted: str | None) -> None:
    gone = None if deleted is None else col("op") == deleted
    answers = [
        found(orders.join_temporal(
            versions, on="k", how=how, left_time="ts", right_time="since", deleted=gone
        ))
        for orders, versions in sides(lone)
    ]  # fmt: skip
    assert answers[0] == answers[1]
    dead = "p.op = 'delete'" if deleted is not None else "false"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("orders", ORDERS)
        connection.register("prices", PRICES)
        seen = ", ".join(
            f"CASE WHEN {dead} THEN NULL ELSE p.{c} END AS {c}" for c in ("since", "price", "op")
        )
        keep = f"WHERE p.price IS NOT NULL AND ({dead}) IS NOT TRUE" if how == "inner" else ""
        rows = connection.sql(
            f"SELECT o.k, o.ts, o.v, {seen} FROM orders o ASOF LEFT JOIN prices p "
            f"ON o.k = p.k AND o.ts >= p.since {keep}"
        )
        assert answers[0] == settled(rows.to_arrow_table().to_batches())


@pytest.mark.parametrize("asked", AS_OF, ids=lambda asked: str(asked["strategy"]))
def test_the_nearest_row_of_another_stream(lone: Session, asked: dict[str, Any]) -> None:
    answers = [
        found(orders.join_asof(others, left_on="ts", right_on="since", by="k", **asked))
        for orders, others in sides(lone)
    ]
    assert answers[0] == answers[1]
    matched = sum(n for row, n in answers[0].items() if row[4] is not None)
    assert 0 < matched < ORDERS.num_rows


def test_keys_of_other_types_and_columns_of_one_name(lone: Session) -> None:
    made = []
    for orders, versions in sides(lone):
        others = versions.select(
            (col("k").cast("int32") + 0).alias("id"), col("since").alias("ts"), v="price"
        )
        if stream_of(others.plan.root) is not None:
            raw = streams.replay(lone.read_arrow(PRICES), "since").select(
                id=(col("k").cast("int32") + 0), ts="since", v="price"
            )
            others = raw.with_watermark("ts", "1 second")
        made.append(
            orders.join_temporal(
                others, left_on="k", right_on="id", left_time="ts", right_time="ts",
                deleted=col("v") % 5 == 0,
            )
        )  # fmt: skip
    assert made[0].columns == made[1].columns == ["k", "ts", "v", "id", "v_right"]
    answers = [found(frame) for frame in made]
    assert answers[0] == answers[1]
    assert sum(answers[0].values()) > 50


def test_results_of_windows_are_versions(lone: Session) -> None:
    orders, others = sides(lone)[0]
    means = others.group_by("k").window("2 seconds").agg(mean=col("price").mean())
    seen = orders.join_asof(means, left_on="ts", right_on="window_end", by="k")
    starts = (col("since").dt.truncate("2s")).alias("window_start")
    rows = lone.read_arrow(PRICES).group_by("k", starts).agg(mean=col("price").mean())
    ended = rows.with_columns(window_end=col("window_start").dt.offset_by("2s"))
    ended = ended.select("k", "window_start", "window_end", "mean")
    table = lone.read_arrow(ORDERS).join_asof(ended, left_on="ts", right_on="window_end", by="k")
    names = ["k", "ts", "v", "window_end", "mean"]
    assert found(seen.select(*names)) == found(table.select(*names))
    per_minute = seen.group_by("k").window("5 seconds").agg(n=count())  # event time goes on
    assert sum(row["n"] for row in per_minute.to_arrow().to_pylist()) == ORDERS.num_rows


def test_late_rows_are_told_or_read(lone: Session) -> None:
    orders = stream(lone, ORDERS, "ts")
    shuffled = streams.replay(lone.read_arrow(PRICES.sort_by("price")), "price")
    versions = shuffled.with_watermark("since", "0 seconds")
    made = orders.join_temporal(versions, on="k", how="left", late="side")
    late = made.side_output("late_right").to_arrow()
    assert 0 < late.num_rows < PRICES.num_rows
    assert late.schema.names == PRICES.schema.names
    on_time = PRICES.filter(pc.invert(pc.is_in(PRICES["price"], late["price"])))
    table = lone.read_arrow(ORDERS).join_temporal(
        lone.read_arrow(on_time), on="k", how="left", left_time="ts", right_time="since"
    )
    assert found(made) == found(table)


def test_on_two_agents(session: Session, lone: Session, tmp_path: Path) -> None:
    orders, versions = replayed(session, tmp_path, {"ts": ORDERS, "since": PRICES})
    orders = orders.with_watermark("ts", "1 second")
    versions = versions.with_watermark("since", "1 second")
    near = {"left_on": "ts", "right_on": "since", "by": "k"}
    orders.join_temporal(versions, on="k").write_stream(tmp_path / "t", parallelism=2).wait(120)
    orders.join_asof(versions, **AS_OF[3], **near).write_stream(tmp_path / "n").wait(120)
    mine, theirs = sides(lone)[1]
    table = mine.join_temporal(theirs, on="k", left_time="ts", right_time="since")
    assert found(session.read_parquet(tmp_path / "t")) == found(table)
    table = mine.join_asof(theirs, **AS_OF[3], **near)
    assert found(session.read_parquet(tmp_path / "n")) == found(table)


def test_on_other_numbers_of_tasks(tmp_path: Path) -> None:
    with fabric.connect(parallelism=4) as session:
        session.checkpoints(interval_s=0.1, folder=tmp_path / "checkpoints")
        sources = [generated(session, seed) for seed in (1, 2)]
        tables = [session.read_arrow(at_once(each)) for each in sources]
        few = (col("row") * 7 + col("split")) % 3 == 0
        asked: dict[str, Any] = {
            "left_on": "ts", "right_on": "at", "by": "key", "strategy": "nearest",
            "tolerance": "40 ms",
        }  # fmt: skip

        def mine(frame: DataFrame) -> DataFrame:
            return frame.select("key", "row", "split", "ts")

        def theirs(frame: DataFrame) -> DataFrame:
            return frame.filter(few).select("key", at="ts")  # rows of one time are alike

        left, right = mine(sources[0]), theirs(sources[1])
        seen = left.with_watermark("ts", "30 ms").join_asof(
            right.with_watermark("at", "30 ms"), **asked
        )
        with held(tmp_path / "held"):
            job = seen.write_stream(tmp_path / "out", name="seen", parallelism=2)
            for parallelism in (4, 1, 3):
                wait_until(lambda: any(each.state == "published" for each in job.checkpoints()))
                job.rescale(parallelism, timeout_s=60)
        job.wait(120)
        written = session.read_parquet(tmp_path / "out")
        assert found(written) == found(mine(tables[0]).join_asof(theirs(tables[1]), **asked))
        assert 0 < written.filter(col("at").is_null()).count() < 8_000


def test_what_is_not_bounded_is_refused(lone: Session) -> None:
    (orders, others), (mine, theirs) = sides(lone)
    near: dict[str, Any] = {"left_on": "ts", "right_on": "since"}
    for strategy in ("forward", "nearest"):
        with pytest.raises(PlanError, match=f'strategy="{strategy}".*tolerance="10 minutes"'):
            orders.join_asof(others, by="k", strategy=strategy, **near)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r'write: \.join_asof\(…, by="id"\)'):
        orders.join_asof(others, **near)
    with pytest.raises(PlanError, match=r'goes by event time, and col\("v"\) .*which is "ts"'):
        orders.join_asof(others, left_on="v", right_on="since", by="k")
    with pytest.raises(PlanError, match='tolerance="24 hours"'):
        orders.join_asof(others, by="k", tolerance="1d", **near)
    with pytest.raises(PlanError, match="needs a length of time as its tolerance, got 5"):
        orders.join_asof(others, by="k", tolerance=5, **near)
    with pytest.raises(PlanError, match=r"stream\.join\(table"):
        orders.join_asof(theirs, by="k", **near)
    with pytest.raises(PlanError, match="leave late out"):
        mine.join_asof(theirs, by="k", late="side", **near)
    with pytest.raises(PlanError, match=r"stream\.join\(table"):
        orders.join_temporal(theirs, on="k", right_time="since")
    with pytest.raises(PlanError, match=r'write: .*left_time="ts", right_time="at"'):
        mine.join_temporal(theirs, on="k")
    with pytest.raises(PlanError, match=r'no column "at"; the columns are'):
        mine.join_temporal(theirs, on="k", left_time="ts", right_time="at")
    with pytest.raises(PlanError, match="takes how inner or left, got how='full'"):
        orders.join_temporal(others, on="k", how="full")
    with pytest.raises(PlanError, match='which is "since", not "price"'):
        orders.join_temporal(others, on="k", right_time="price")
    with pytest.raises(PlanError, match="what deleted of a join says must be true or false"):
        orders.join_temporal(others, on="k", deleted=col("price"))
    with pytest.raises(PlanError, match=r'no column "priced" .*did you mean "price"'):
        orders.join_temporal(others, on="k", deleted=col("priced") > 3)
    with pytest.raises(PlanError, match=r'"k" is int64 and "op" is string'):
        orders.join_temporal(others, left_on="k", right_on="op")
    untimed = streams.replay(theirs, "since")
    with pytest.raises(PlanError, match=r"right side of a join .*\.with_watermark\("):
        orders.join_temporal(untimed, on="k")
    totals = others.group_by("k").agg(n=count())
    with pytest.raises(PlanError, match=r"can't take changing results.*\.changes\(\)"):
        orders.join_temporal(totals, on="k")


def test_a_side_without_watermark_is_named_in_the_status(
    lone: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(two_streams, "STILL_US", 1)
    orders = streams.generator(n_keys=5, n_splits=1, rows_per_s=500, session=lone)
    empty = streams.generator(n_keys=5, n_splits=1, seed=1, rows_per_s=500, session=lone)
    never = empty.filter(col("key") < 0).with_watermark("ts", "1 day")
    pairs = orders.with_watermark("ts", "1 second").join_temporal(never, on="key").named("seen")
    job = pairs.write_stream(tmp_path / "out")
    try:
        wait_until(lambda: "right side of seen" in str(job.status))
        told = str(job.status)
        assert 'write: .with_watermark(…, idle="30 seconds")' in told
        assert "still right" not in told
    finally:
        job.cancel()
