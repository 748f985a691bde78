"""Streams in stages: one region, pipelined; rows with equal keys in one task; sides and tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.config import CheckpointConfig
from fabric.coordinator.optimizer.optimizer import optimize
from fabric.coordinator.planner.finish import by_name
from fabric.coordinator.planner.node_records import node_records
from fabric.coordinator.planner.picture import explain, joined
from fabric.coordinator.planner.planner import plan_stages
from fabric.coordinator.planner.stages import StageGraph, graph_text, steps_after
from fabric.errors import PlanError
from fabric.plan.check import check
from fabric.plan.codec import decode, encode
from fabric.plan.event_windows import Global, Tumbling
from fabric.plan.expr import Agg, Alias, Call, Cast, Column, Expr, Literal, SortKey, output_name
from fabric.plan.nodes import (
    Aggregate,
    AssignWindows,
    Changes,
    Deduplicate,
    Exchange,
    Filter,
    KeyedProcess,
    LookupJoin,
    MapAsync,
    Node,
    NodeConfig,
    Plan,
    Scan,
    Select,
    SideOutput,
    Sink,
    StageInput,
    StreamAggregate,
    StreamJoin,
    StreamScan,
    TopN,
    Union,
    Watermark,
    WithColumns,
)
from fabric.plan.schema import schema_of
from fabric.plan.sources import GeneratorStream, KafkaStream, Split
from fabric.plan.stream import HIDDEN, KIND, WATERMARK
from fabric.plan.stream_facts import task_of
from fabric.plan.targets import StreamFileTarget
from fabric.plan.walk import walk
from tests.support.plans.streams import FUNCTION, SCHEMA, TABLE, random_stream, written

seeds = st.integers(0, 1 << 32)
SECOND = 1_000_000
K, V, TS, END, N = (Column(name) for name in ("k", "v", "ts", "window_end", "n"))
SCAN = StreamScan(GeneratorStream(), SCHEMA)
TIMED = Watermark(SCAN, "ts")
COUNT = (Alias(Agg("count", None), "n"),)
WINDOW = Tumbling(60 * SECOND)
BY_MINUTE = StreamAggregate(TIMED, (K,), COUNT, WINDOW, "ts")
OUT = StreamFileTarget("parquet", "/out")


def plan(
    root: Node, parallelism: int = 2, n_splits: int = 4, config: dict[str, NodeConfig] | None = None
) -> StageGraph:
    """Stages of `root`; each stream has `n_splits` splits, each table one."""
    checked = optimize(check(Plan(root, tuple((config or {}).items()))))
    splits: dict[str, list[Split]] = {}
    for node in walk(checked.root):
        if isinstance(node, StreamScan):
            splits[node.path] = [Split(str(number)) for number in range(n_splits)]
        elif isinstance(node, Scan):
            splits[node.path] = [Split("t", n_rows=3)]
    return plan_stages(checked, splits, parallelism)


def of(graph: StageGraph, kind: type[Node]) -> Node:
    """The one node of that kind."""
    (found,) = (n for s in graph.stages for n in walk(s.root) if isinstance(n, kind))
    return found


def kinds(root: Node) -> list[str]:
    return [type(node).__name__ for node in walk(root)]


@given(seed=seeds, parallelism=st.integers(1, 4), n_splits=st.integers(1, 5))
def test_every_stream_becomes_a_region_of_pipelined_chains(
    seed: int, parallelism: int, n_splits: int
) -> None:
    root = written(random_stream(Random(seed)))
    graph = plan(root, parallelism, n_splits)
    whole = [e for e in graph.edges if e.kind == "broadcast" and e.mode == "materialised"]
    tables = {e.producer for e in whole}
    tables |= {e.producer for e in graph.edges if e.consumer in tables}  # gathered before
    streams = [stage for stage in graph.stages if stage.stage not in tables]
    assert len({stage.region for stage in streams}) == 1
    for stage in streams:
        assert stage.kind == "chain"
        _check_stage(stage.root)
        assert decode(encode(Plan(stage.root))).root == stage.root
    for edge in graph.edges:
        stays = edge.is_result or edge.producer in tables
        assert edge.mode == ("materialised" if stays else "pipelined")
        assert not edge.adaptive
    assert not any(name in graph.result.schema.names for name in HIDDEN)
    assert graph_text(graph)
    assert explain(graph, CheckpointConfig()).svg
    assert type(joined(graph)) is Sink


def _check_stage(root: Node) -> None:
    """What operators rely on."""
    for node in walk(root):
        schema = schema_of(node)
        match node:
            case StreamAggregate(keys=keys, aggs=aggs, input=source):
                assert all(isinstance(key, Column) for key in keys)
                for agg in map(_unaliased, aggs):
                    for part in (*agg.args, *(() if agg.input is None else (agg.input,))):
                        assert isinstance(part, Column | Literal)
                assert not node.closes or node.closes in schema.names
                assert not node.time or node.time in schema_of(source).names
            case Deduplicate(keys=keys) | KeyedProcess(keys=keys):
                assert all(isinstance(key, Column) for key in keys)
            case TopN(keys=keys, by=by):
                assert all(isinstance(key, Column) for key in (*keys, *(b.input for b in by)))
            case StreamJoin(left_time=mine, right_time=theirs):
                sides = (node.left, node.left_keys, mine), (node.right, node.right_keys, theirs)
                types = []
                for side, keys, time in sides:
                    columns = schema_of(side)
                    assert time in columns.names
                    types.append([columns.field(output_name(key)).type for key in keys])
                assert types[0] == types[1]
            case LookupJoin(left_keys=left, right_keys=right):
                assert all(isinstance(key, Column) for key in (*left, *right))
            case Watermark(input=source):
                assert {*kinds(source)} <= {
                    "StreamScan", "Filter", "Select", "WithColumns", "Explode"}  # fmt: skip
            case SideOutput():
                raise AssertionError("a side output is an edge")
            case Sink(input=source) | KeyedProcess(input=source):
                assert not any(name in schema_of(source).names for name in HIDDEN)


def _unaliased(expr: Expr) -> Agg:
    agg = expr.input if isinstance(expr, Alias) else expr
    assert isinstance(agg, Agg)
    return agg


def test_splits_go_in_turn_and_more_tasks_than_splits_are_idle() -> None:
    graph = plan(Sink(TIMED, OUT), parallelism=4, n_splits=6)
    (stage,) = graph.stages
    assert [[s.uri for s in task[0][1]] for task in stage.splits] == [
        ["0", "4"], ["1", "5"], ["2"], ["3"]]  # fmt: skip
    wide = plan(Sink(replace(TIMED, input=replace(SCAN, path="in")), OUT), n_splits=1,
                config={"in": NodeConfig(parallelism=2)})  # fmt: skip
    assert [len(task[0][1]) for task in wide.stages[0].splits] == [1, 0]


def test_partitions_go_where_their_names_say() -> None:
    names = [f"{topic}-{partition}" for topic in ("a", "b") for partition in range(3)]
    dealt = by_name([Split(name) for name in names], 2)
    assert [[task_of(split.uri, 2) for split in task] for task in dealt] == [[0] * 2, [1] * 4]
    assert sorted(split.uri for task in dealt for split in task) == names
    assert KafkaStream("h:1", ("a",)).FINDS_SPLITS
    assert not SCAN.source.FINDS_SPLITS


def test_with_one_task_a_stream_is_one_chain() -> None:
    graph = plan(Sink(BY_MINUTE, OUT), parallelism=1)
    assert [kinds(stage.root) for stage in graph.stages] == [
        ["StreamScan", "Watermark", "StreamAggregate", "Sink"]
    ]
    assert graph.stages[0].kind == "chain"


def test_a_keyed_step_exchanges_by_its_keys_and_later_ones_of_the_same_stay() -> None:
    totals = StreamAggregate(BY_MINUTE, (K,), (Alias(Agg("sum", N), "all"),), Global())
    graph = plan(Sink(Changes(totals), OUT))
    assert [kinds(stage.root) for stage in graph.stages] == [
        ["StreamScan", "Watermark"],
        ["StageInput", "StreamAggregate", "Select", "StreamAggregate", "Changes", "Sink"],
    ]
    edge = graph.edges[0]
    assert (edge.kind, edge.keys, edge.mode, edge.n_partitions) == ("hash", ("k",), "pipelined", 2)
    assert edge.schema.names == ["ts", "k", WATERMARK]


def test_a_step_by_more_keys_has_an_exchange_of_its_own() -> None:
    """State is filed by the hash of all keys: a restored task had that of other tasks' rows."""
    busiest = TopN(BY_MINUTE, (K, END), (SortKey(N, True),), 1, closes="window_end")
    graph = plan(Sink(busiest, OUT))
    edges = [(edge.kind, edge.keys) for edge in graph.edges if not edge.is_result]
    assert edges == [("hash", ("k",)), ("hash", ("k", "window_end"))]


def test_without_keys_rows_are_gathered() -> None:
    graph = plan(Sink(replace(BY_MINUTE, keys=()), OUT))
    assert (graph.edges[0].kind, graph.edges[0].n_partitions) == ("gather", 1)
    assert graph.edges[0].schema.names == ["ts", WATERMARK]


def test_watermarks_of_rows_are_kept_from_event_time_to_the_window() -> None:
    narrow = Filter(Select(TIMED, (K, Alias(TS, "at"))), Call("is_not_null", (K,)))
    both = Union((narrow, Select(Filter(TIMED, Call("is_null", (K,))), (K, TS))))
    root = Sink(StreamAggregate(both, (K,), COUNT, WINDOW, "at"), OUT)
    graph = plan(root, parallelism=1)
    names = [schema_of(node).names for node in walk(graph.stages[0].root)]
    assert all(WATERMARK in found for found in names[1:-2])
    assert names[-2] == ["k", "window_start", "window_end", "n"]
    assert not any(
        WATERMARK in schema_of(n).names for n in walk(plan(Sink(narrow, OUT)).stages[0].root)
    )


def test_results_that_change_carry_their_kind_to_where_it_is_shown() -> None:
    totals = Filter(StreamAggregate(TIMED, (K,), COUNT), Call("gt", (N, Literal(1, pa.int64()))))
    graph = plan(Sink(Changes(Select(totals, (N,))), OUT), parallelism=1)
    root = graph.stages[0].root
    assert [KIND in schema_of(node).names for node in walk(root)] == [
        False, False, False, True, True, True, False, False]  # fmt: skip
    mixed = Union((Select(totals, (K,)), Select(TIMED, (K,))))
    kept = of(plan(Sink(Changes(mixed), OUT), parallelism=1), Changes)
    assert schema_of(kept.children[0]).names == ["k", KIND]
    with pytest.raises(PlanError, match=r"these results change.*\.changes\(\)"):
        plan(totals)


def test_expressions_are_computed_below_the_exchange() -> None:
    key = Alias(Call("upper", (K,)), "v")
    aggs = (Alias(Agg("sum", Call("multiply", (V, V))), "total"), Alias(Agg("max", V), "most"))
    graph = plan(Sink(StreamAggregate(TIMED, (key,), aggs, WINDOW, "ts"), OUT))
    assert graph.edges[0].keys == ("__key_0",)
    assert graph.edges[0].schema.names == ["__key_0", "__arg_1", "v", "ts", WATERMARK]
    assert graph.stages[1].root.children[0].path == "stream_aggregate_1/columns"
    names = schema_of(graph.stages[1].root.children[0]).names
    assert names == ["v", "window_start", "window_end", "total", "most"]


def test_a_window_of_windows_goes_by_the_time_just_before_their_ends() -> None:
    hourly = StreamAggregate(BY_MINUTE, (K,), COUNT, Tumbling(3600 * SECOND), "window_end")
    graph = plan(Sink(replace(hourly, aggs=(Alias(Agg("sum", N), "n"),)), OUT), parallelism=1)
    (step,) = (n for n in walk(graph.stages[0].root)
               if isinstance(n, StreamAggregate) and n.time == "__time_0")  # fmt: skip
    below = step.input
    assert isinstance(below, Select)
    assert (
        Alias(
            Call("subtract", (END, Literal(timedelta(microseconds=1), pa.duration("us")))),
            "__time_0",
        )
        in below.exprs
    )
    assert WATERMARK not in schema_of(below).names


def test_a_side_output_is_an_edge_with_its_tag() -> None:
    counted = replace(BY_MINUTE, late="side", path="counted", keys=(Alias(K, "key"),))
    late = Sink(SideOutput(counted, "late"), replace(OUT, path="/late"))
    graph = plan(Union((Sink(counted, OUT), late)))
    tagged = [edge for edge in graph.edges if edge.side]
    assert [(e.side, e.kind, e.mode, e.n_partitions) for e in tagged] == [
        ("late", "forward", "pipelined", 2)
    ]
    producer = graph.stages[tagged[0].producer]
    assert isinstance(producer.root, StreamAggregate)
    assert producer.root.path == "counted"
    assert tagged[0].schema.names == [*SCHEMA.names, "__key_0"]
    reader = graph.stages[tagged[0].consumer]
    assert reader.is_sink
    assert schema_of(reader.root.children[0]).names == SCHEMA.names
    assert [e.path for e in graph.outputs[producer.stage]] == ["side_output_1", "counted/main"]
    assert sum(stage.is_sink for stage in graph.stages) == 2
    assert schema_of(joined(graph)).names == ["rows"]
    assert 'side "late"' in graph_text(graph)


def test_only_the_side_may_be_read() -> None:
    graph = plan(Sink(SideOutput(replace(BY_MINUTE, late="side"), "late"), OUT), parallelism=1)
    assert [(e.side, e.is_result) for e in graph.edges] == [("late", False), ("", True)]
    bad = Sink(SideOutput(replace(TIMED, on_bad="side"), "bad"), OUT)
    assert [kinds(stage.root) for stage in plan(bad, parallelism=1).stages] == [
        ["StreamScan", "Watermark"], ["StageInput", "Sink"]]  # fmt: skip


def test_a_table_is_there_before_the_stream_begins() -> None:
    per_name = Aggregate(TABLE, (K,), (Alias(Agg("max", Column("name")), "name"),))
    graph = plan(Sink(LookupJoin(TIMED, per_name, (K,), (K,), "left", path="look"), OUT))
    (edge,) = (e for e in graph.edges if e.kind == "broadcast")
    assert (edge.mode, edge.n_partitions, edge.path) == ("materialised", 2, "look/table")
    region = graph.stages[edge.consumer].region
    assert graph.region_inputs(region) == (edge,)
    join = of(graph, LookupJoin)
    assert isinstance(join, LookupJoin)
    assert isinstance(join.table, StageInput)
    assert graph.stages[edge.producer].kind == "fragment"


def test_keys_of_a_lookup_are_cast_to_one_type_and_names_stay() -> None:
    table = Select(TABLE, (Alias(Call("length", (K,)), "k"), Column("name"), Alias(K, "v")))
    node = LookupJoin(TIMED, table, (Cast(V, pa.int64()),), (K,), "inner", "_t")
    graph = plan(Sink(node, OUT))
    join = of(graph, LookupJoin)
    assert isinstance(join, LookupJoin)
    assert join.left_keys == (Column("__key_0"),)
    shown = graph.stages[-1].root.children[0]
    assert schema_of(shown).names == [*SCHEMA.names, "k_t", "name", "v_t"]
    same = of(plan(Sink(LookupJoin(TIMED, TABLE, (K,), (K,)), OUT)), LookupJoin)
    assert isinstance(same, LookupJoin)
    assert same.left_keys == (K,)


OTHER = Watermark(replace(SCAN, path="other"), "ts")
NEAR = StreamJoin(TIMED, OTHER, (K,), (K,), "ts", "ts", -SECOND, 0, path="near")


def test_both_sides_of_a_join_come_by_their_keys_with_their_watermarks() -> None:
    graph = plan(Sink(NEAR, OUT))
    edges = {edge.path: edge for edge in graph.edges if not edge.is_result}
    assert edges.keys() == {"near/left/exchange", "near/right/exchange"}
    for edge in edges.values():
        assert (edge.kind, edge.keys, edge.n_partitions) == ("hash", ("k",), 2)
        assert WATERMARK in edge.schema.names
    assert len({edge.consumer for edge in edges.values()}) == 1
    readers = {edge.path: steps_after(graph, edge) for edge in edges.values()}
    assert readers == {"near/left/exchange": ("near/left",), "near/right/exchange": ("near/right",)}
    counted = StreamAggregate(NEAR, (K,), COUNT, WINDOW, "ts")
    assert len(plan(Sink(counted, OUT)).edges) == len(graph.edges)  # keys are together already


def test_in_one_task_each_side_of_a_join_is_a_step_of_its_own() -> None:
    """Rows in flight over an exchange of two tasks come in by the path of the side."""
    graph = plan(Sink(NEAR, OUT), parallelism=1)
    (stage,) = graph.stages
    paths = {node.path: node for node in walk(stage.root)}
    for side in ("left", "right"):
        step = paths[f"near/{side}"]
        edge = next(e for e in plan(Sink(NEAR, OUT)).edges if e.path == f"near/{side}/exchange")
        assert isinstance(step, Select)
        assert schema_of(step.input) == edge.schema
    assert node_records(graph) == node_records(plan(Sink(NEAR, OUT)))  # so it may be rescaled


def test_ends_of_windows_and_keys_of_other_types_are_columns_below_a_join() -> None:
    windows = AssignWindows(TIMED, "ts", WINDOW)
    joined = StreamJoin(
        windows, BY_MINUTE, (END, Cast(V, pa.int64())), (END, N), "window_end", "window_end", 0, 0,
        "full", condition=Call("ne", (Column("k"), Column("k_right"))),
    )  # fmt: skip
    graph = plan(Sink(joined, OUT))
    join = of(graph, StreamJoin)
    assert isinstance(join, StreamJoin)
    assert join.left_keys == join.right_keys == (Column("__key_0"), Column("__key_1"))
    assert (join.left_time, join.right_time) == ("__time_2", "__time_2")
    assert (join.lower_us, join.upper_us) == (0, 0)
    assert join.condition == Call("ne", (Column("k"), Column(f"k{join.suffix}")))
    shown = graph.stages[-1].root.children[0]
    assert schema_of(shown) == schema_of(joined)
    mixed = replace(joined, left_time="ts", lower_us=-5, upper_us=5, how="semi")
    join = of(plan(Sink(mixed, OUT)), StreamJoin)
    assert isinstance(join, StreamJoin)
    assert (join.lower_us, join.upper_us) == (-6, 4)  # of the microsecond before the end


def test_rebalancing_and_user_exchanges_are_pipelined() -> None:
    graph = plan(Sink(Exchange(TIMED, "round_robin", n_partitions=3, path="spread"), OUT))
    edge = graph.edges[0]
    assert (edge.path, edge.kind, edge.mode, edge.n_partitions) == (
        "spread", "round_robin", "pipelined", 3)  # fmt: skip


def test_a_stream_shared_by_two_is_read_once() -> None:
    counted = replace(BY_MINUTE, aggs=(Alias(Agg("sum", V), "total"),))
    graph = plan(Union((Sink(BY_MINUTE, OUT), Sink(counted, replace(OUT, path="/b")))))
    scans = [n for s in graph.stages for n in walk(s.root) if isinstance(n, StreamScan)]
    assert len(scans) == 1
    assert {e.mode for e in graph.edges if not e.is_result} == {"pipelined"}


def test_materialised_settings_are_refused() -> None:
    named = replace(BY_MINUTE, path="minutes")
    with pytest.raises(PlanError, match='leave exchange="materialised" out') as error:
        plan(Sink(named, OUT), config={"minutes": NodeConfig(exchange="materialised")})
    assert error.value.where.node == "minutes"


def test_deduplicated_rows_keep_their_watermark_only_when_they_pass_at_once() -> None:
    closing = Deduplicate(AssignWindows(TIMED, "ts", WINDOW), (K, END), closes="window_end")
    last, earliest = replace(closing, keep="last"), replace(closing, by="ts")
    for step, keeps in (
        (Deduplicate(TIMED, (K,)), True), (closing, True), (last, False), (earliest, False),
    ):  # fmt: skip
        counted = StreamAggregate(step, (K,), COUNT, WINDOW, "ts" if keeps else "window_end")
        made = of(plan(Sink(counted, OUT), parallelism=1), Deduplicate)
        assert isinstance(made, Deduplicate)
        assert made.rows is keeps
        assert WATERMARK in schema_of(made.input).names


def test_asynchronous_calls_stay_in_their_task_and_share_a_rate() -> None:
    price = pa.schema([("price", pa.int64())])
    asked = MapAsync(TIMED, FUNCTION, price, ("k", "ts"), rate_per_s=90.0)
    graph = plan(Sink(replace(BY_MINUTE, input=asked), OUT), parallelism=3)
    found = of(graph, MapAsync)
    assert isinstance(found, MapAsync)
    assert found.n_tasks == 3
    assert isinstance(found.input, Watermark), "no exchange is below"
    assert schema_of(found).names == ["k", "ts", "price", WATERMARK], "late rows are told by it"
    again = decode(encode(Plan(graph.stages[0].root))).root
    assert again == graph.stages[0].root


def test_a_function_sees_no_hidden_column() -> None:
    step = KeyedProcess(WithColumns(TIMED, (Alias(V, "w"),)), (K,), FUNCTION, SCHEMA, time="ts")
    shared = Union((Select(StreamAggregate(step, (K,), COUNT, WINDOW, "ts"), (K,)),
                    Select(BY_MINUTE, (K,))))  # fmt: skip
    made = of(plan(Sink(shared, OUT), parallelism=1), KeyedProcess)
    assert schema_of(made.children[0]).names == [*SCHEMA.names, "w"]


@pytest.mark.parametrize("n_splits", [1, 4])
def test_what_is_broadcast_comes_through_one_task(n_splits: int) -> None:
    """So that all tasks have it in one order; a table is there before the first row."""
    rules = replace(SCAN, path="rules")
    step = KeyedProcess(
        Exchange(TIMED, "round_robin"), (K,), FUNCTION, SCHEMA, path="judge",
        broadcast=rules, broadcast_is="stream", broadcast_bytes=1,
    )  # fmt: skip
    graph = plan(Sink(step, OUT), parallelism=3, n_splits=n_splits)
    edge = next(edge for edge in graph.edges if edge.kind == "broadcast")
    assert (edge.path, edge.mode, edge.n_partitions) == ("judge/broadcast/exchange", "pipelined", 3)
    assert graph.stages[edge.producer].n_tasks == 1
    gathers = [edge.path for edge in graph.edges if edge.kind == "gather"]
    assert gathers == (["judge/broadcast/gather"] if n_splits > 1 else [])
    alone = plan(Sink(step, OUT), parallelism=1, n_splits=n_splits)
    assert not any(edge.kind == "broadcast" for edge in alone.edges)
    table = replace(step, broadcast=TABLE, broadcast_is="table")
    graph = plan(Sink(table, OUT), parallelism=3)
    edge = next(edge for edge in graph.edges if edge.kind == "broadcast")
    assert (edge.path, edge.mode) == ("judge/broadcast", "materialised")
    assert graph.stages[edge.producer].n_tasks == 1
