"""Joins of streams whose results change, embedded and on agents, beside DuckDB's of all rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fabric
from fabric import DataFrame, Session, col, count, max
from fabric.errors import PlanError
from fabric.plan.stream_facts import stream_of
from tests.integration.test_stream_joins import (
    CLICKS,
    HOWS,
    ORDERS,
    answer,
    at_once,
    both,
    found,
    generated,
    joined,
    lone,
    replayed,
)
from tests.support.changes import Settled
from tests.support.held import held
from tests.support.wait import wait_until

__all__ = ["lone"]  # a fixture
SIGNS = {"+I": 1, "+U": 1, "-U": -1, "-D": -1}


def stands(frame: DataFrame) -> Settled:
    """What changes with their kind come to, in any order."""
    total: Settled = Settled()
    for (kind, *row), n in found(frame).items():
        total[tuple(row)] += SIGNS[str(kind)] * n
    assert min(total.values(), default=0) >= 0
    return +total


@pytest.mark.parametrize("how", HOWS)
def test_all_rows_with_equal_keys(lone: Session, how: Any) -> None:
    orders, clicks = both(lone)
    frame = orders.join(clicks, on="k", how=how, where=col("v") % 9 == col("w") % 9, ttl="1 day")
    expected = answer(joined(how, "l.v % 9 = r.w % 9"))
    assert stands(frame.changes()) == expected


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_a_salt_changes_no_row(lone: Session, how: Any) -> None:
    orders, clicks = both(lone)
    latest = clicks.group_by("k").agg(w=max("w"))  # results that change
    for other in (clicks, latest):
        plain, salted = (
            orders.join(other, on="k", how=how, ttl="1 day", salt=salt) for salt in (None, 3)
        )
        assert salted.columns == plain.columns
        assert stands(salted.changes()) == stands(plain.changes()) != Settled()


def test_results_that_change_meet_and_are_told_apart_by_their_key(lone: Session) -> None:
    orders, clicks = both(lone)
    mine = orders.filter(col("k") < 5).group_by("k").agg(n=count())
    theirs = clicks.filter(col("k") > 2).group_by("k").agg(m=count())
    frame = mine.join(theirs, on="k", how="left", ttl="1 day")
    stream = stream_of(frame.plan.root)
    assert stream is not None
    assert stream.keys == ("k",)
    a, b = (f"SELECT k, count(*) AS n FROM {name} WHERE k {which} GROUP BY k"
            for name, which in (("orders", "< 5"), ("clicks", "> 2")))  # fmt: skip
    assert stands(frame.changes()) == answer(
        f"SELECT l.k, l.n, r.n AS m FROM ({a}) l LEFT JOIN ({b}) r ON l.k = r.k"
    )
    sums = frame.filter(col("m").is_not_null()).changes()
    inner = f"SELECT l.k, l.n, r.n AS m FROM ({a}) l JOIN ({b}) r ON l.k = r.k"
    assert stands(sums) == answer(inner)


def test_on_two_agents(session: Session, tmp_path: Path) -> None:
    frames = replayed(session, tmp_path, {"ts": ORDERS, "seen": CLICKS})
    rare = [frame.filter(col(name) % 5 == 0) for frame, name in zip(frames, "vw", strict=True)]
    pairs = rare[0].join(rare[1].with_columns(k=col("k").cast("int32"), replace=True), on="k",
                         how="full", ttl="1 day")  # fmt: skip
    pairs.changes().write_stream(tmp_path / "out", parallelism=2).wait(120)
    some = "SELECT * FROM {} WHERE {} % 5 = 0"
    expected = answer(
        "SELECT coalesce(l.k, r.k) AS k, l.ts, l.v, r.seen, r.w FROM "
        f"({some.format('orders', 'v')}) l FULL JOIN ({some.format('clicks', 'w')}) r ON l.k = r.k"
    )
    assert stands(session.read_parquet(tmp_path / "out")) == expected


def test_on_other_numbers_of_tasks(tmp_path: Path) -> None:
    with fabric.connect(parallelism=4) as session:
        session.checkpoints(interval_s=0.1, folder=tmp_path / "checkpoints")
        sources = [generated(session, seed) for seed in (1, 2)]

        def rows(frames: list[DataFrame]) -> list[DataFrame]:
            picked = [(0, "a"), (1, "b")]
            return [
                frame.filter(col("row") % 8 == number)
                .with_columns(near=col("row") // 200)
                .select("key", "near", col("row").alias(name))
                for frame, (number, name) in zip(frames, picked, strict=True)
            ]

        left, right = rows(sources)
        pairs = left.join(right, on=["key", "near"], how="full", ttl="1 day")
        with held(tmp_path / "held"):
            job = pairs.changes().write_stream(tmp_path / "out", name="pairs", parallelism=2)
            for parallelism in (4, 1, 3):
                wait_until(lambda: any(each.state == "published" for each in job.checkpoints()))
                job.rescale(parallelism, timeout_s=60)
        job.wait(120)
        mine, theirs = rows([session.read_arrow(at_once(each)) for each in sources])
        table = mine.join(theirs, on=["key", "near"], how="full")
        assert stands(session.read_parquet(tmp_path / "out")) == found(table)


def test_what_is_refused(lone: Session) -> None:
    orders, clicks = both(lone)
    totals = orders.group_by("k").agg(n=count())
    with pytest.raises(PlanError, match=r'write: .*\.join\(other, on="id", ttl="1 day"\)'):
        orders.join(clicks, on="k")
    with pytest.raises(PlanError, match=r'can.t take changing results.*ttl="1 day"'):
        totals.join(clicks, on="k")
    with pytest.raises(PlanError, match="leave ttl out"):
        orders.join(lone.read_arrow(CLICKS), on="k", ttl="1 day")
    with pytest.raises(PlanError, match="leave ttl out"):
        lone.read_arrow(ORDERS).join(lone.read_arrow(CLICKS), on="k", ttl="1 day")
    with pytest.raises(PlanError, match="leave late out"):
        orders.join(clicks, on="k", ttl="1 day", late="side")
    with pytest.raises(PlanError, match="leave nulls_equal out"):
        orders.join(clicks, on="k", ttl="1 day", nulls_equal=True)
    with pytest.raises(PlanError, match="how='cross'"):
        orders.join(clicks, how="cross", ttl="1 day")
    with pytest.raises(PlanError, match=r'needs a key .*ttl="1 day"'):
        orders.join(clicks, where=col("v") < col("w"), ttl="1 day")
    with pytest.raises(PlanError, match="ttl"):
        orders.join(clicks, on="k", ttl="0 seconds")
    with pytest.raises(PlanError, match=r"write: .*\.changes\(\)"):
        orders.join(clicks, on="k", ttl="1 day").write_stream("/nowhere")
