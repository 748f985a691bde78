"""Plans of streams go through every rule: what they mean stays, and nothing is read for nobody."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fabric.coordinator.optimizer.optimizer import optimize
from fabric.coordinator.optimizer.passes import unnoted
from fabric.coordinator.optimizer.prune_columns import prune_columns
from fabric.coordinator.optimizer.redundancy import share_subplans
from fabric.coordinator.submit.constants import constant_value
from fabric.plan.check import check
from fabric.plan.event_windows import Tumbling
from fabric.plan.expr import Agg, Alias, Call, Column, Literal, SortKey
from fabric.plan.nodes import (
    Aggregate,
    AssignWindows,
    Changes,
    Deduplicate,
    Filter,
    KeyedProcess,
    LookupJoin,
    Node,
    Plan,
    Select,
    SideOutput,
    Sink,
    StreamAggregate,
    StreamScan,
    TopN,
    Union,
    Watermark,
    WithColumns,
)
from fabric.plan.schema import schema_of
from fabric.plan.sources import GeneratorStream
from fabric.plan.stream_facts import stream_of
from fabric.plan.targets import StreamFileTarget
from fabric.plan.walk import walk
from tests.support.plans.streams import FUNCTION, SCHEMA, TABLE, random_stream, written

K, V, TS, ID = (Column(name) for name in ("k", "v", "ts", "id"))
SCAN = StreamScan(GeneratorStream(), SCHEMA)
TIMED = Watermark(SCAN, "ts")
COUNT = (Alias(Agg("count", None), "n"),)
BY_MINUTE = StreamAggregate(TIMED, (K,), COUNT, Tumbling(60_000_000), "ts")
OUT = StreamFileTarget("parquet", "/out")
KEPT = (Watermark, AssignWindows, StreamAggregate, Deduplicate, TopN, KeyedProcess, Changes, Sink)


def optimised(root: Node) -> Node:
    return optimize(check(Plan(root)), evaluate=constant_value).root


def pruned(root: Node) -> Node:
    return prune_columns(check(Plan(root)).root, unnoted)


def columns_read(root: Node) -> list[str]:
    (scan,) = (node for node in walk(root) if isinstance(node, StreamScan))
    return schema_of(scan).names


@given(seed=st.integers(0, 1 << 32))
def test_what_a_stream_means_stays(seed: int) -> None:
    before = check(Plan(written(random_stream(Random(seed)))))
    after = optimize(before, evaluate=constant_value)
    assert schema_of(after.root) == schema_of(before.root)
    assert stream_of(after.root) == stream_of(before.root)
    kept = [(type(node), node.path) for node in walk(before.root) if isinstance(node, KEPT)]
    assert [(type(node), node.path) for node in walk(after.root) if isinstance(node, KEPT)] == kept


def test_filters_stay_above_event_time_and_keyed_steps() -> None:
    """A filtered row is still an earlier row of its split, and one of its group."""
    keep = Call("gt", (V, Literal(1, pa.int32())))
    for step in (TIMED, Deduplicate(TIMED, (K,)), AssignWindows(TIMED, "ts", Tumbling(1))):
        root = check(Plan(Sink(Filter(step, keep), OUT)))
        assert optimize(root).root is root.root
    below = optimised(Sink(Filter(WithColumns(TIMED, (Alias(K, "w"),)), keep), OUT))
    assert [type(node) for node in walk(below)] == [
        StreamScan, Watermark, Filter, WithColumns, Sink]  # fmt: skip


def test_a_stream_reads_what_is_needed_and_always_its_time() -> None:
    assert columns_read(pruned(Sink(BY_MINUTE, OUT))) == ["ts", "k"]
    assert columns_read(pruned(Sink(Select(TIMED, (K,)), OUT))) == ["ts", "k"]
    top = Select(TopN(TIMED, (K,), (SortKey(V),), 1, rank="r"), (Column("r"),))
    assert columns_read(pruned(Sink(Changes(top), OUT))) == ["ts", "k", "v"]
    once = Select(Deduplicate(SCAN, (K,), "last", "ts"), (ID,))
    assert columns_read(pruned(Sink(Changes(once), OUT))) == ["id", "ts", "k"]
    windows = Select(AssignWindows(TIMED, "ts", Tumbling(1)), (K, Column("window_end")))
    assert columns_read(pruned(Sink(windows, OUT))) == ["ts", "k"]


def test_aggregates_that_nobody_reads_are_not_computed() -> None:
    two = replace(BY_MINUTE, aggs=(*COUNT, Alias(Agg("sum", V), "total")))
    after = pruned(Sink(Select(two, (K, Column("n"))), OUT))
    assert columns_read(after) == ["ts", "k"]
    (step,) = (node for node in walk(after) if isinstance(node, StreamAggregate))
    assert step.aggs == COUNT


def test_what_is_put_aside_and_what_functions_see_stays_whole() -> None:
    late = SideOutput(replace(BY_MINUTE, late="side"), "late")
    process = KeyedProcess(TIMED, (K,), FUNCTION, SCHEMA)
    bad = Select(replace(TIMED, on_bad="side"), (K,))
    for node in (late, Select(process, (K,)), bad):
        assert columns_read(pruned(Sink(node, OUT))) == SCHEMA.names


def test_both_sides_of_a_lookup_lose_what_nobody_reads() -> None:
    node = Select(LookupJoin(TIMED, TABLE, (K,), (K,)), (Column("name"),))
    after = pruned(Sink(node, OUT))
    (join,) = (n for n in walk(after) if isinstance(n, LookupJoin))
    assert schema_of(join).names == ["k", "name"]
    assert columns_read(after) == ["ts", "k"]


def test_two_streams_written_alike_are_two() -> None:
    """Rows of two readings of a generator without a start are not the same."""
    per_name = Aggregate(TABLE, (K,), (Alias(Agg("max", Column("name")), "name"),))
    joined = [LookupJoin(Watermark(replace(SCAN, path=p), "ts"), per_name, (K,), (K,))
              for p in "ab"]  # fmt: skip
    root = check(Plan(Sink(Union(tuple(joined)), OUT))).root
    assert share_subplans(root, unnoted) is root
