"""Golden explain texts of streams: the optimised plan and the stages for two tasks.

``FABRIC_REGENERATE=1 python -m pytest tests/golden/test_streams.py`` writes the files of
``tests/golden/streams`` anew; look at the difference before committing it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from fabric import DataFrame, col, count, streams, sum
from fabric.clients.dataframe.render import explanation
from fabric.control import control_pb2 as pb
from fabric.coordinator.optimizer.optimizer import optimize
from fabric.coordinator.optimizer.trace import Fired, effects_text
from fabric.coordinator.planner.planner import plan_stages
from fabric.coordinator.planner.stages import graph_text
from fabric.plan.check import check
from fabric.plan.nodes import Plan, Scan, Sink, StreamScan, Union
from fabric.plan.printer import tree
from fabric.plan.sources import FileSource, Split
from fabric.plan.targets import StreamFileTarget
from fabric.plan.walk import walk

FOLDER = Path(__file__).parent / "streams"
_N_SPLITS: dict[type, int] = {Scan: 1, StreamScan: 4}


def out(frame: DataFrame, path: str = "/out") -> Sink:
    return Sink(frame.plan.root, StreamFileTarget("parquet", path))


def bids() -> DataFrame:
    return streams.nexmark("bid", n_splits=4).with_watermark("dateTime", "5 seconds")


def hot_items() -> Sink:
    """Nexmark 5: the auctions with the most bids of each window."""
    counts = bids().group_by("auction").window("10 seconds", slide="2 seconds").agg(num=count())
    return out(counts.top_n(1, by=col("num").desc(), keys=["window_start", "window_end"],
                            ties=True))  # fmt: skip


def highest_bid() -> Sink:
    """Nexmark 7: the highest bids of each window."""
    rows = bids().filter(col("price") > 0).assign_windows("10 seconds")
    best = rows.top_n(1, by=col("price").desc(), keys="window_end", ties=True)
    return out(best.select("auction", "price", "bidder", "dateTime"))


def top_ten() -> Sink:
    """Nexmark 19: ten bids an auction, which change."""
    ranked = bids().top_n(10, by=col("price").desc(), keys="auction", rank="rank_number")
    return out(ranked.changes())


def late_rows() -> Union:
    """A window with late rows aside, in a job of two writes."""
    rates = (
        bids()
        .group_by(channel=col("channel").str.upper())
        .window("1 minute", lateness="10 seconds", late="side")
        .agg(rate=sum("price") / count())
    )
    return Union((out(rates), out(rates.side_output("late"), "/late")))


def looked_up() -> Sink:
    """Bids with the names of their bidders, from files."""
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("city", pa.string())])
    people = DataFrame.of(Scan(FileSource("parquet", ("/people.parquet",)), schema, path="people"))
    joined = bids().join(people, left_on="bidder", right_on="id", how="left")
    per_name = joined.group_by("name").window(streams.session("1 minute")).agg(n=count())
    return out(per_name)


CASES: list[Callable[[], Sink | Union]] = [hot_items, highest_bid, top_ten, late_rows, looked_up]


def explained(plan: Plan) -> str:
    """What `explain` says of a checked plan."""
    fired: list[Fired] = []
    best = optimize(plan, fired=fired)
    splits = {
        node.path: [Split(str(number)) for number in range(_N_SPLITS[type(node)])]
        for node in walk(best.root)
        if type(node) in _N_SPLITS
    }
    reply = pb.ExplainReply(
        plan=tree(plan.root),
        rules=effects_text(fired),
        optimised=tree(best.root),
        stages=graph_text(plan_stages(best, splits, 2)),
    )
    return str(explanation(reply, "text", verbose=False)) + "\n"


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_golden(make: Callable[[], Sink | Union]) -> None:
    text = explained(check(Plan(make())))
    path = FOLDER / f"{make.__name__}.txt"
    if os.environ.get("FABRIC_REGENERATE"):
        path.write_text(text, "utf-8")
    assert path.read_text("utf-8") == text


def test_every_file_has_a_case() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {make.__name__ for make in CASES}
