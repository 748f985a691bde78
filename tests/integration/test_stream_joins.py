"""Joins of two streams, embedded and on two agents, beside DuckDB's and those of tables."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from time import sleep
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import DataFrame, Session, col, count, streams
from fabric.errors import PlanError
from fabric.io.readers.generator import rows as made_rows
from tests.integration.test_unaligned_checkpoints import wait_for_rows_in_flight
from tests.support.changes import Settled, settled
from tests.support.held import held
from tests.support.wait import wait_until

US = pa.timestamp("us", "UTC")
HOWS = ("inner", "left", "right", "full", "semi", "anti")
SECOND = 1_000_000
START = int(datetime(2024, 5, 1, tzinfo=UTC).timestamp()) * SECOND


def table(seed: int, time: str, value: str, n_rows: int = 400) -> pa.Table:
    """Rows of some keys, which may be null, in order but for half a second."""
    rng = Random(seed)
    times = [START + i * SECOND // 10 - rng.randint(0, SECOND // 2) for i in range(n_rows)]
    return pa.table({
        "k": pa.array([rng.choice([None, *range(8)]) for _ in times], pa.int64()),
        time: pa.array(times, US),
        value: pa.array(range(n_rows), pa.int64()),
    })  # fmt: skip


ORDERS, CLICKS = table(1, "ts", "v"), table(2, "seen", "w")


@pytest.fixture(scope="module")
def lone() -> Iterator[Session]:
    with fabric.connect(parallelism=3) as opened:
        yield opened


def stream(session: Session, rows: pa.Table, time: str) -> DataFrame:
    return streams.replay(session.read_arrow(rows), time).with_watermark(time, "1 second")


def both(session: Session) -> tuple[DataFrame, DataFrame]:
    return stream(session, ORDERS, "ts"), stream(session, CLICKS, "seen")


def answer(sql: str) -> Settled:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("orders", ORDERS)
        connection.register("clicks", CLICKS)
        return settled(connection.sql(sql).to_arrow_table().to_batches())


def found(frame: DataFrame) -> Settled:
    return settled(frame.to_arrow().to_batches())


def joined(how: str, on: str) -> str:
    columns = "l.k, l.ts, l.v"
    if how not in ("semi", "anti"):
        columns = "coalesce(l.k, r.k) AS k, l.ts, l.v, r.seen, r.w"
    return f"SELECT {columns} FROM orders l {how} JOIN clicks r ON l.k = r.k AND {on}"


def near(mine: DataFrame, theirs: DataFrame, how: Any, **more: Any) -> DataFrame:
    """Clicks from two seconds before to three after an order."""
    around = (col("ts") - timedelta(seconds=2), col("ts").dt.offset_by("3s"))
    return mine.join_interval(theirs, around, "seen", by="k", how=how, **more)


NEAR = "r.seen BETWEEN l.ts - INTERVAL 2 SECOND AND l.ts + INTERVAL 3 SECOND"

SAME = "time_bucket(INTERVAL 2 SECOND, l.ts) = time_bucket(INTERVAL 2 SECOND, r.seen)"


@pytest.mark.parametrize("how", HOWS)
def test_pairs_for_which_a_condition_is_not_true_have_not_met(lone: Session, how: Any) -> None:
    """One that reads both sides, a merged key, and a column that has a suffix."""
    tables = lone.read_arrow(ORDERS), lone.read_arrow(CLICKS)
    twins = [frame.with_columns((col("v") % 7).alias("x")) for frame in (both(lone)[0], tables[0])]
    others = [frame.with_columns((col("w") % 7).alias("x")) for frame in (both(lone)[1], tables[1])]
    where = [col("x") < col("x_right"), col("k") != 3]
    sql = joined(how, f"{NEAR} AND l.v % 7 < r.w % 7 AND l.k <> 3")
    narrow = others[0].with_columns(k=col("k").cast("int32"), replace=True)
    for mine, theirs in ((twins[0], narrow), (twins[1], others[1])):
        frame = near(mine, theirs, how, where=where)
        assert found(frame.drop(*[c for c in frame.columns if c[0] == "x"])) == answer(sql)
    keys = ["k", "window_start", "window_end"]
    mine, theirs = (frame.assign_windows("2 seconds") for frame in (twins[0], others[0]))
    frame = mine.join(theirs, on=keys, how=how, where=where)
    gone = [c for c in frame.columns if c[0] == "x" or c in keys[1:]]
    sql = joined(how, f"{SAME} AND l.v % 7 < r.w % 7 AND l.k <> 3")
    assert found(frame.drop(*gone)) == answer(sql)


@pytest.mark.parametrize("how", HOWS)
def test_rows_near_each_other(lone: Session, how: str) -> None:
    expected = answer(joined(how, NEAR))
    assert found(near(*both(lone), how)) == expected
    tables = lone.read_arrow(ORDERS), lone.read_arrow(CLICKS)
    assert found(near(*tables, how)) == expected  # the same line over rows with an end


@pytest.mark.parametrize("closed", ["left", "right", "none"])
def test_ends_of_a_range_may_be_left_out(lone: Session, closed: Any) -> None:
    exact = pa.table({"k": [1] * 5, "seen": pa.array([START + i for i in range(5)], US)})
    point = pa.table({"k": [1], "ts": pa.array([START + 2], US)})
    sides = stream(lone, point, "ts"), stream(lone, exact, "seen")
    tables = lone.read_arrow(point), lone.read_arrow(exact)
    by = timedelta(microseconds=1)
    for left, right in ((("ts"), (col("seen") - by, col("seen") + by)),
                        ((col("ts") - by, col("ts") + by), "seen")):  # fmt: skip
        frames = [
            mine.join_interval(theirs, left, right, by="k", closed=closed)
            for mine, theirs in (sides, tables)
        ]
        assert found(frames[0]) == found(frames[1])


@pytest.mark.parametrize("how", HOWS)
def test_rows_of_the_same_window(lone: Session, how: Any) -> None:
    orders, clicks = (frame.assign_windows("2 seconds") for frame in both(lone))
    keys = ["k", "window_start", "window_end"]
    frame = orders.join(clicks, on=keys, how=how).drop("window_start", "window_end")
    assert found(frame) == answer(joined(how, SAME))


def test_results_of_windows_meet_and_are_counted_on(lone: Session) -> None:
    orders, clicks = both(lone)
    mine = orders.group_by("k").window("5 seconds").agg(n=count())
    theirs = clicks.group_by((col("k") + 0).alias("id")).window("5 seconds").agg(m=count())
    on = {"left_on": ["k", "window_end"], "right_on": ["id", "window_end"]}
    pairs = mine.join(theirs, **on)
    sums = pairs.group_by("window_end").agg(n=(col("n") * col("m")).sum())
    bucket = "time_bucket(INTERVAL 5 SECOND, {}) + INTERVAL 5 SECOND"
    counts = "SELECT k, {} AS w, count(*) AS n FROM {} GROUP BY ALL"
    a = counts.format(bucket.format("ts"), "orders")
    b = counts.format(bucket.format("seen"), "clicks")
    assert found(sums) == answer(
        f"SELECT w, sum(l.n * r.n)::BIGINT FROM ({a}) l JOIN ({b}) r USING (k, w) GROUP BY w"
    )


@pytest.mark.parametrize("how", ["inner", "left", "full"])
def test_keys_of_other_types_are_made_alike(lone: Session, how: Any) -> None:
    orders, clicks = both(lone)
    narrow = clicks.with_columns(k=col("k").cast("int32"), replace=True)
    assert found(near(orders, narrow, how)) == answer(joined(how, NEAR))
    twice = orders.join_interval(
        narrow, (col("ts") - timedelta(seconds=2), col("ts") + timedelta(seconds=3)), "seen",
        left_by=["k", "k"], right_by=["k", (col("k") + 0).alias("j")], how=how,
    )  # fmt: skip
    assert found(twice.select("k", "ts", "v", "seen", "w")) == answer(joined(how, NEAR))


def test_late_rows_are_told_or_read(lone: Session, capsys: pytest.CaptureFixture[str]) -> None:
    orders, clicks = stream(lone, ORDERS, "ts"), lone.read_arrow(CLICKS.sort_by("w"))
    behind = streams.replay(clicks, "w").with_watermark("seen", "0 seconds")
    made = near(orders, behind, "inner", late="side").named("near")
    late = made.side_output("late_right").to_arrow()
    assert 0 < late.num_rows < CLICKS.num_rows
    assert late.schema.names == CLICKS.schema.names
    assert "were dropped" not in capsys.readouterr().err
    on_time = answer(joined("inner", NEAR))
    lost = {row["w"] for row in late.to_pylist()}
    assert found(made) == {row: n for row, n in on_time.items() if row[-1] not in lost}
    told = capsys.readouterr().err
    assert f"rows={late.num_rows}" in told
    assert '.side_output("late_right")' in told
    assert made.side_output("late_left").to_arrow().num_rows == 0
    assert f"rows={late.num_rows}" in capsys.readouterr().err  # nobody has read the other side's


def test_a_stream_with_itself(lone: Session) -> None:
    orders = stream(lone, ORDERS, "ts")
    pairs = orders.join_interval(orders, "ts", (col("ts") - timedelta(seconds=1), "ts"), by="k")
    assert found(pairs.select("v", "v_right")) == answer(
        "SELECT l.v, r.v AS w FROM orders l JOIN orders r ON l.k = r.k AND l.ts BETWEEN "
        "r.ts - INTERVAL 1 SECOND AND r.ts"
    )


def test_windows_over_pairs(lone: Session) -> None:
    pairs = near(*both(lone), "left")
    counts = pairs.group_by("k").window("5 seconds").agg(n=count())
    bucket = "time_bucket(INTERVAL 5 SECOND, ts)"
    expected = f"SELECT k, {bucket} AS b, count(*) FROM ({joined('left', NEAR)}) GROUP BY k, b"
    assert found(counts.select("k", "window_start", "n")) == answer(expected)


def replayed(session: Session, folder: Path, rows: dict[str, pa.Table]) -> list[DataFrame]:
    """Streams of tables by their columns of times, from files that all agents can read."""
    for time, table in rows.items():
        pq.write_table(table, folder / f"{time}.parquet")
    return [streams.replay(session.read_parquet(folder / f"{time}.parquet"), time) for time in rows]


@pytest.mark.parametrize("how", ["inner", "full"])
def test_on_two_agents(session: Session, tmp_path: Path, how: Any) -> None:
    rows = {"ts": ORDERS, "seen": CLICKS}
    frames = [
        frame.with_watermark(time, "1 second")
        for time, frame in zip(rows, replayed(session, tmp_path, rows), strict=True)
    ]
    orders, clicks = frames
    mine, theirs = (frame.assign_windows("2 seconds") for frame in frames)
    same = mine.join(theirs, on=["k", "window_start", "window_end"], how=how)
    jobs = {
        NEAR: near(orders, clicks, how).write_stream(tmp_path / "near", parallelism=2),
        SAME: same.drop("window_start", "window_end").write_stream(tmp_path / "same"),
    }
    for (condition, job), name in zip(jobs.items(), ("near", "same"), strict=True):
        job.wait(120)
        assert found(session.read_parquet(tmp_path / name)) == answer(joined(how, condition))


def generated(session: Session, seed: int, rows_per_s: int = 1_000) -> DataFrame:
    return streams.generator(
        n_rows=8_000, n_keys=20, n_splits=4, seed=seed, disorder="20 ms", rows_per_s=rows_per_s,
        start=datetime(2024, 5, 1, tzinfo=UTC), session=session,
    )  # fmt: skip


def at_once(frame: DataFrame) -> pa.Table:
    """The same rows without waiting for them."""
    source = frame.plan.root.source
    n = source.n_rows // source.n_splits
    return pa.concat_tables(
        pa.table(made_rows(source, split, 0, n, source.start_us))
        for split in range(source.n_splits)
    )


def pairs_of(sources: list[DataFrame], how: Any, ms: int, salt: int | None = None) -> DataFrame:
    """Both sides have the same columns."""
    left, right = (
        frame.select("key", "row", "split", "ts").with_watermark("ts", "30 ms") for frame in sources
    )
    ago = col("ts") - timedelta(milliseconds=ms)
    return left.join_interval(right, (ago, "ts"), "ts", by="key", how=how, salt=salt)


def answer_of_pairs(sources: list[DataFrame], how: str, ms: int) -> Settled:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, source in zip("ab", sources, strict=True):
            connection.register(name, at_once(source))
        expected = connection.sql(
            "SELECT coalesce(a.key, b.key) AS key, a.row, a.split, a.ts, b.row AS row_right, "
            f"b.split AS split_right, b.ts AS ts_right FROM a {how} JOIN b ON a.key = b.key "
            f"AND b.ts BETWEEN a.ts - INTERVAL {ms} MILLISECOND AND a.ts"
        )
        return settled(expected.to_arrow_table().to_batches())


def test_on_other_numbers_of_tasks(tmp_path: Path) -> None:
    with fabric.connect(parallelism=4) as session:
        session.checkpoints(interval_s=0.1, folder=tmp_path / "checkpoints")
        sources = [generated(session, seed) for seed in (1, 2)]
        pairs = pairs_of(sources, "full", 20)
        with held(tmp_path / "held"):
            job = pairs.write_stream(tmp_path / "out", name="joined", parallelism=2)
            for parallelism in (4, 1, 3):
                wait_until(lambda: any(each.state == "published" for each in job.checkpoints()))
                job.rescale(parallelism, timeout_s=60)
        job.wait(120)
        written = session.read_parquet(tmp_path / "out").to_arrow()
    assert settled(written.to_batches()) == answer_of_pairs(sources, "full", 20)
    assert min(written[name].null_count for name in ("row", "row_right")) > 0


def test_rows_in_flight_stay_on_their_side(tmp_path: Path) -> None:
    free = tmp_path / "free"

    class Slow(fabric.Process):
        """In the same task as the join, so that rows wait before that."""

        def on_batch(
            self, ctx: fabric.ProcessContext, keys: pa.RecordBatch, rows: pa.RecordBatch
        ) -> pa.RecordBatch:
            if not free.exists():
                sleep(rows.num_rows / 700)
            return rows

    with fabric.connect(parallelism=4) as session:
        session.checkpoints(interval_s=0.3, unaligned_after_s=0, folder=tmp_path / "checkpoints")
        sources = [generated(session, seed, rows_per_s=4_000) for seed in (1, 2)]
        pairs = pairs_of(sources, "left", 5)
        slow = pairs.process(Slow(), keys="key", schema=pairs.schema)
        job = slow.write_stream(tmp_path / "out", parallelism=2)
        wait_for_rows_in_flight(job)
        job.rescale(1, timeout_s=60)  # there is no exchange any more
        free.touch()
        job.wait(120)
        written = session.read_parquet(tmp_path / "out").to_arrow()
    assert settled(written.to_batches()) == answer_of_pairs(sources, "left", 5)


def test_what_is_not_bounded_is_refused(lone: Session) -> None:
    orders, clicks = both(lone)
    with pytest.raises(PlanError, match=r"would keep all rows of both for ever.*join_interval"):
        orders.join(clicks, on="k")
    with pytest.raises(PlanError, match=r'the condition of a join .*\.join_interval\(.*"v"\) != 0'):
        near(orders, clicks, "left", where=col("v"))
    with pytest.raises(PlanError, match="leave late out"):
        orders.join(lone.read_arrow(CLICKS), on="k", late="side")
    with pytest.raises(PlanError, match="leave strategy out"):
        orders.join(clicks, on="k", strategy="broadcast")
    mine, theirs = (frame.assign_windows("1 second") for frame in (orders, clicks))
    with pytest.raises(PlanError, match="leave nulls_equal out"):
        mine.join(theirs, on=["k", "window_end"], nulls_equal=True)
    with pytest.raises(PlanError, match="can't be joined with how='cross'"):
        orders.cross_join(clicks)
    untimed = streams.replay(lone.read_arrow(CLICKS), "seen")
    with pytest.raises(PlanError, match=r"\.with_watermark\("):
        near(orders, untimed, "inner")
    with pytest.raises(PlanError, match=r'needs a key .*by="id"'):
        orders.join_interval(clicks, "ts", (col("seen"), "seen"))
    for left, right, why in (
        ("ts", ("seen", col("seen").dt.offset_by("1d")), "is not event time, earlier or later"),
        ("ts", ("seen", "w"), '"w" is not event time of its side'),
        ("v", ("seen", "seen"), '"v" is not event time of its side'),
        (("ts", "ts"), ("seen", "seen"), "two ranges overlap"),
    ):
        with pytest.raises(PlanError, match=f"join_interval of two streams: .*{why}.*write: "):
            orders.join_interval(clicks, left, right, by="k")
    with pytest.raises(PlanError, match="the range ends before it begins"):
        orders.join_interval(clicks, "ts", (col("seen"), "seen"), by="k", closed="left")
    totals = orders.group_by("k").agg(n=count())
    with pytest.raises(PlanError, match=r"can't take changing results.*\.changes\(\)"):
        totals.join(clicks, on="k")


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_a_salt_changes_no_row(lone: Session, how: Any) -> None:
    orders, clicks = both(lone)
    where = col("v") % 7 < col("w") % 7
    given = near(orders, clicks, how, where=where, salt=4)
    assert found(given) == answer(joined(how, f"{NEAR} AND l.v % 7 < r.w % 7"))
    mine, theirs = orders.assign_windows("2 seconds"), clicks.assign_windows("2 seconds")
    pairs = mine.join(theirs, on=["k", "window_start", "window_end"], how=how, salt=3)
    assert found(pairs.drop("window_start", "window_end")) == answer(joined(how, SAME))
    assert given.columns == near(orders, clicks, how).columns
    by = {"left_on": "ts", "right_on": "seen", "by": "k", "strategy": "nearest", "tolerance": "5s"}
    if how in ("inner", "left"):
        asked = [orders.join_temporal(clicks, on="k", how=how, salt=n) for n in (None, 5)]
        asked += [orders.join_asof(clicks, **by, salt=n) for n in (None, 5)]
        answers = [found(frame) for frame in asked]
        assert answers[::2] == answers[1::2]


def test_a_salt_spreads_the_rows_of_a_key(lone: Session, tmp_path: Path) -> None:
    """Each task writes files of its own."""
    sides = [
        streams.generator(
            n_rows=600, n_keys=1, n_splits=3, seed=seed, disorder="20 ms",
            start=datetime(2024, 5, 1, tzinfo=UTC), session=lone,
        )
        for seed in (1, 2)
    ]  # fmt: skip
    for salt in (None, 16):
        pairs = pairs_of(sides, "inner", 1, salt=salt)
        pairs.write_stream(streams.to_files(tmp_path / str(salt), compact_bytes=0)).wait(60)
    one, some = (lone.read_parquet(tmp_path / name).to_arrow() for name in ("None", "16"))
    expected = answer_of_pairs(sides, "inner", 1)
    assert settled(one.to_batches()) == settled(some.to_batches()) == expected
    n_files = [len(list((tmp_path / name).rglob("*.parquet"))) for name in ("None", "16")]
    assert n_files == [1, 3]


def test_what_takes_no_salt(lone: Session) -> None:
    orders, clicks = both(lone)
    for how in ("right", "full"):
        with pytest.raises(PlanError, match=r"right rows that met nobody .* 4 parts"):
            near(orders, clicks, how, salt=4)
    with pytest.raises(PlanError, match="puts no late rows aside"):
        near(orders, clicks, "inner", salt=4, late="side")
    for bad in (1, 0, True, 2.0, 10_000):
        with pytest.raises(PlanError, match=r"from 2 to 1024, got .*write: salt=8"):
            near(orders, clicks, "inner", salt=bad)
    with pytest.raises(PlanError, match="leave salt out"):
        orders.join(lone.read_arrow(CLICKS), on="k", salt=4)
    totals = orders.group_by("k").agg(n=count())
    with pytest.raises(PlanError, match="no changing results on its left side"):
        totals.join(clicks, on="k", ttl="1 day", salt=4)
    assert clicks.join(totals, on="k", ttl="1 day", salt=4).columns == ["k", "seen", "w", "n"]
    assert near(orders, clicks, "inner", salt=4).plan.root.text().endswith(', by="k", salt=4)')
