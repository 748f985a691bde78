"""Which plan becomes which stages."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from fabric.coordinator.planner.determinate import is_determinate
from fabric.coordinator.planner.planner import plan_stages
from fabric.coordinator.planner.stages import StageGraph, graph_text
from fabric.errors import PlanError
from fabric.plan.check import check
from fabric.plan.expr import Agg, Alias, Call, Column, Literal, SortKey
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Exchange,
    Filter,
    Join,
    Limit,
    Node,
    NodeConfig,
    Plan,
    Scan,
    Select,
    Sink,
    Sort,
    Union,
    WithColumns,
)
from fabric.plan.schema import schema_of
from fabric.plan.sources import FlightSource, Split
from fabric.plan.targets import DatasetTarget, FileTarget, FlightTarget
from fabric.plan.walk import walk

A, B, S, K = (Column(name) for name in "absk")
SUM = (Alias(Agg("sum", B), "total"),)
MB = 1 << 20


def split(n_bytes: int = MB) -> Split:
    return Split("x", n_rows=n_bytes // 40, n_bytes=n_bytes)


def plan(
    root: Node,
    parallelism: int = 4,
    config: dict[str, NodeConfig] | None = None,
    splits: dict[str, list[Split]] | None = None,
) -> StageGraph:
    """Stages of `root`; each scan has 8 splits of 1 MiB unless said."""
    checked = check(Plan(root, tuple((config or {}).items())))
    scans = [node.path for node in walk(checked.root) if isinstance(node, Scan)]
    given = {path: [split()] * 8 for path in scans} | (splits or {})
    return plan_stages(checked, given, parallelism)


def shape(graph: StageGraph) -> list[tuple[int, ...]]:
    """(stage, tasks, and the stages its edges go to)."""
    return [
        (s.stage, s.n_tasks, *(e.consumer for e in graph.outputs[s.stage])) for s in graph.stages
    ]


def edges(graph: StageGraph) -> list[tuple[str, str, int]]:
    return [(edge.path, edge.kind, edge.n_partitions) for edge in graph.edges]


def kinds(root: Node) -> list[str]:
    return [type(node).__name__ for node in walk(root)]


def test_narrow_operators_stay_with_the_scan(p: SimpleNamespace) -> None:
    graph = plan(Select(Filter(p.table(), p.call("gt", "a", 1)), (A,)))
    assert shape(graph) == [(0, 4, -1)]
    assert edges(graph) == [("select_1", "forward", 4)]
    assert [len(task[0][1]) for task in graph.stages[0].splits] == [2, 2, 2, 2]
    assert graph.stages[0].kind == "fragment"


def test_no_more_tasks_than_splits(p: SimpleNamespace) -> None:
    graph = plan(p.table(), splits={"t": [split()] * 3})
    assert shape(graph) == [(0, 3, -1)]
    assert shape(plan(p.table(), splits={"t": []})) == [(0, 1, -1)]


@pytest.mark.parametrize("splits", [[split()] * 8, []])
def test_parallelism_one_is_one_fragment(p: SimpleNamespace, splits: list[Split]) -> None:
    joined = Join(p.table(), Distinct(p.table("u", a=pa.int64(), c=pa.int64())), (A,), (A,))
    root = Limit(Sort(Aggregate(joined, (S,), SUM), (SortKey(S),)), 3)
    graph = plan(root, 1, splits={"t": splits})
    assert shape(graph) == [(0, 1, -1)]
    assert {n.phase for n in walk(graph.stages[0].root) if isinstance(n, Aggregate)} == {"single"}


def test_aggregate_in_two_phases(p: SimpleNamespace) -> None:
    graph = plan(Aggregate(p.table(), (p.alias(p.call("add", "a", 1), "k"),), SUM, path="by"))
    assert shape(graph) == [(0, 4, 1), (1, 4, -1)]
    assert edges(graph) == [("by/exchange", "hash", 4), ("by", "forward", 4)]
    assert graph.edges[0].keys == ("k",)
    assert [s.root.phase for s in graph.stages] == ["partial", "final"]
    assert graph.stages[1].root.keys == (K,)
    assert schema_of(graph.stages[1].root).names == ["k", "total"]


def test_aggregate_without_keys_gathers(p: SimpleNamespace) -> None:
    graph = plan(Aggregate(p.table(), (), SUM, path="all"))
    assert shape(graph) == [(0, 4, 1), (1, 1, -1)]
    assert edges(graph)[0] == ("all/exchange", "gather", 1)


def test_count_distinct_exchanges_rows(p: SimpleNamespace) -> None:
    counted = (Alias(Agg("count_distinct", B), "n"),)
    graph = plan(Aggregate(p.table(), (p.alias(p.call("add", "a", 1), "k"),), counted))
    assert [kinds(s.root) for s in graph.stages] == [
        ["Scan", "Select", "WithColumns"],
        ["StageInput", "Select", "Aggregate"],
    ]
    assert graph.edges[0].schema.names == ["a", "b", "__key_0"]
    assert graph.stages[1].root.phase == "single"
    graph = plan(Aggregate(p.table(), (), counted))
    assert [edge[1] for edge in edges(graph)] == ["gather", "forward"]


def test_decimal_mean_tells_its_type(p: SimpleNamespace) -> None:
    t = p.table(k=pa.int64(), d=pa.decimal128(30, 2))
    root = Aggregate(t, (K,), (Alias(Agg("mean", Column("d")), "m"),))
    graph = plan(root)
    assert schema_of(graph.stages[1].root) == schema_of(root)


def test_rows_that_are_together_are_not_exchanged_again(p: SimpleNamespace) -> None:
    sent = Exchange(p.table(), "hash", ("a",), path="e")
    renamed = Select(Filter(sent, p.call("gt", "b", 1)), (p.alias("a", "k"), B, S))
    for root in (
        Aggregate(renamed, (S, K), SUM),
        Distinct(renamed),
        Aggregate(Distinct(Aggregate(renamed, (K,), SUM)), (K,), (Agg("count", None),)),
    ):
        assert shape(plan(root)) == [(0, 4, 1), (1, 4, -1)]
    computed = Aggregate(sent, (p.alias(p.call("add", "a", 1), "k"),), SUM)
    lost = Aggregate(WithColumns(sent, (p.alias("b", "a"),), True), (A,), SUM)
    for root in (computed, lost, Aggregate(sent, (S,), SUM)):
        assert len(plan(root).stages) == 3


def test_distinct_is_local_first(p: SimpleNamespace) -> None:
    graph = plan(Distinct(p.table()))
    assert [kinds(s.root) for s in graph.stages] == [
        ["Scan", "Distinct"], ["StageInput", "Distinct"],
    ]  # fmt: skip
    assert graph.edges[0].keys == ("a", "b", "s")


def big(p: SimpleNamespace, path: str, **types: pa.DataType) -> tuple[Scan, dict[str, Any]]:
    return p.table(path, **types), {path: [split(400 * MB)] * 4}


def test_large_sides_are_hashed_as_one_type(p: SimpleNamespace) -> None:
    left, sizes = big(p, "l", a=pa.int32(), b=pa.int64())
    right, more = big(p, "r", a=pa.int64(), c=pa.int64())
    graph = plan(Join(left, right, (A,), (A,), path="j"), splits=sizes | more)
    assert shape(graph) == [(0, 4, 2), (1, 4, 2), (2, 4, -1)]
    assert edges(graph)[:2] == [("j/left", "hash", 4), ("j/right", "hash", 4)]
    assert [edge.keys for edge in graph.edges] == [("__key_0",), ("a",), ()]
    assert graph.edges[0].schema.field("__key_0").type == pa.int64()
    assert schema_of(graph.stages[2].root).names == ["a", "b", "c"]
    assert kinds(graph.stages[2].root) == ["StageInput", "Select", "StageInput", "Join"]


def test_computed_keys_travel_as_columns(p: SimpleNamespace) -> None:
    left, sizes = big(p, "l", a=pa.int64(), __key_0=pa.int64())
    right, more = big(p, "r", c=pa.int64())
    keys = (p.call("add", "a", 1),), (Column("c"),)
    graph = plan(Join(left, right, *keys), splits=sizes | more)
    assert graph.edges[0].keys == ("__key_0_",)
    assert schema_of(graph.stages[2].root).names == ["a", "__key_0", "c"]


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_a_small_right_side_is_broadcast(p: SimpleNamespace, how: str) -> None:
    left, sizes = big(p, "l", a=pa.int64(), b=pa.int64())
    right = p.table("r", a=pa.int64(), c=pa.int64())
    graph = plan(Join(left, right, (A,), (A,), how, path="j"), splits=sizes)
    assert shape(graph) == [(0, 4, 1), (1, 4, -1)]
    assert edges(graph)[0] == ("j/right", "broadcast", 4)


@pytest.mark.parametrize(
    ("left_bytes", "right_bytes", "expected"),
    [
        (80 * MB, 63 * MB, "broadcast"),
        (80 * MB, 65 * MB, "hash"),
        (10 * MB, 20 * MB, "broadcast"),
        (65 * MB, 80 * MB, "hash"),
        (20 * MB, 20 * MB, "hash"),
        (0, MB, "hash"),
        (80 * MB, 0, "hash"),
    ],
)
def test_broadcast_needs_to_know_that_it_pays(
    p: SimpleNamespace, left_bytes: int, right_bytes: int, expected: str
) -> None:
    def sizes(n_bytes: int) -> list[Split]:
        return [Split("x", n_rows=n_bytes // 16 // 4, n_bytes=n_bytes // 4)] * 4

    left = p.table("l", a=pa.int64(), b=pa.int64())
    right = p.table("r", a=pa.int64(), c=pa.int64())
    given = {"l": sizes(left_bytes), "r": sizes(right_bytes)}
    graph = plan(Join(left, right, (A,), (A,)), splits=given)
    assert graph.edges[0].kind == expected


def test_join_strategy_is_followed(p: SimpleNamespace) -> None:
    left, sizes = big(p, "l", a=pa.int64())
    right, more = big(p, "r", a=pa.int64())
    join = Join(left, right, (A,), (A,), strategy="broadcast")
    assert plan(join, splits=sizes | more).edges[0].kind == "broadcast"
    graph = plan(replace(join, strategy="hash"), splits=sizes)
    assert [edge.kind for edge in graph.edges] == ["hash", "hash", "forward"]


def test_explicit_broadcast(p: SimpleNamespace) -> None:
    left, sizes = big(p, "l", a=pa.int64())
    right, more = big(p, "r", a=pa.int64(), c=pa.int64())
    sent = Filter(Exchange(right, "broadcast", path="mine"), p.call("gt", "c", 1))
    graph = plan(Join(left, sent, (A,), (A,)), splits=sizes | more)
    assert edges(graph)[0] == ("mine", "broadcast", 4)
    assert kinds(graph.stages[0].root) == ["Scan", "Filter"]
    for root in (Exchange(right, "broadcast", path="mine"), Distinct(sent), Limit(sent, 1)):
        with pytest.raises(PlanError, match=r"only be a side of a join.*node mine"):
            plan(root)


def test_sides_that_are_partitioned_alike_stay(p: SimpleNamespace) -> None:
    left, sizes = big(p, "l", a=pa.int64(), b=pa.int64())
    right, more = big(p, "r", a=pa.int64(), c=pa.int64())
    sent = Exchange(left, "hash", ("a",), 3, path="e")
    graph = plan(Join(sent, right, (A,), (A,), path="j"), splits=sizes | more)
    assert edges(graph)[:2] == [("e", "hash", 3), ("j/right", "hash", 3)]
    assert shape(graph)[-1] == (2, 3, -1)


def test_sort_gathers_and_a_limit_makes_it_a_top_n(p: SimpleNamespace) -> None:
    order = Sort(p.table(), (SortKey(A),), path="o")
    assert [kinds(s.root) for s in plan(order).stages] == [["Scan"], ["StageInput", "Sort"]]
    graph = plan(Limit(order, 10, 5))
    assert [kinds(s.root) for s in graph.stages] == [
        ["Scan", "Sort", "Limit"],
        ["StageInput", "Sort", "Limit"],
    ]
    local, final = (s.root for s in graph.stages)
    assert (local.n, local.offset, final.n, final.offset) == (15, 0, 10, 5)


def test_limit_is_local_first(p: SimpleNamespace) -> None:
    graph = plan(Limit(p.table(), 10, (1 << 63) - 5, path="l"))
    assert [(s.n_tasks, s.root.n, s.root.offset) for s in graph.stages] == [
        (4, (1 << 63) - 1, 0), (1, 10, (1 << 63) - 5),
    ]  # fmt: skip
    assert edges(graph)[0] == ("l/gather", "gather", 1)


def test_union_of_scans_is_one_stage(p: SimpleNamespace) -> None:
    graph = plan(Union((p.table("x"), p.table("y"))), splits={"y": [split()] * 2})
    assert shape(graph) == [(0, 4, -1)]
    assert [[len(s) for _, s in task] for task in graph.stages[0].splits] == [
        [2, 0], [2, 1], [2, 0], [2, 1],
    ]  # fmt: skip


def test_union_spreads_what_is_narrower(p: SimpleNamespace) -> None:
    one = Select(Limit(p.table("x"), 3), (A, B, S))
    graph = plan(Union((one, p.table("y")), path="u"))
    assert ("u/input", "round_robin", 4) in edges(graph)
    assert graph.stages[-1].n_tasks == 4


def test_exchanges_of_the_plan_are_kept(p: SimpleNamespace) -> None:
    for kind, n in (("hash", 4), ("round_robin", 4), ("gather", 1), ("forward", 4)):
        keys = ("a",) if kind == "hash" else ()
        graph = plan(Filter(Exchange(p.table(), kind, keys, path="e"), p.call("gt", "a", 1)))
        assert edges(graph)[0] == ("e", kind, n)
        single = plan(Filter(Exchange(p.table(), kind, keys, path="e"), p.call("gt", "a", 1)), 1)
        assert shape(single) == [(0, 1, 1), (1, 1, -1)]
    assert edges(plan(Distinct(Exchange(p.table(), "hash", ("a",), 7, path="e"))))[0][2] == 7


def test_an_exchange_at_the_root_is_the_result(p: SimpleNamespace) -> None:
    graph = plan(Exchange(p.table(), "hash", ("a",), 7, path="mine"))
    assert shape(graph) == [(0, 4, -1)]
    assert edges(graph) == [("mine", "hash", 7)]
    assert graph.result.is_result


def test_result_path_survives_optimising(p: SimpleNamespace) -> None:
    root = check(Plan(p.table()))
    assert plan_stages(root, {}, 4, result_path="named").result.path == "named"


def test_configured_parallelism(p: SimpleNamespace) -> None:
    t = p.table()
    config = {"by": NodeConfig(parallelism=2), "t": NodeConfig(parallelism=3)}
    graph = plan(Aggregate(t, (A,), SUM, path="by"), config=config)
    assert shape(graph) == [(0, 3, 1), (1, 2, -1)]
    narrow = Filter(Aggregate(t, (A,), SUM, path="by"), p.call("gt", "a", 1), path="f")
    graph = plan(narrow, config={"f": NodeConfig(parallelism=2)})
    assert edges(graph)[1:] == [("f/input", "round_robin", 2), ("f", "forward", 2)]
    graph = plan(Filter(t, p.call("gt", "a", 1), path="f"), config={"f": NodeConfig(parallelism=2)})
    assert shape(graph) == [(0, 2, -1)]
    exchange = Filter(Exchange(t, "round_robin", path="e"), p.call("gt", "a", 1))
    assert edges(plan(exchange, config={"e": NodeConfig(parallelism=9)}))[0][2] == 9


@pytest.mark.parametrize("n", [0, 129])
def test_parallelism_is_bounded(p: SimpleNamespace, n: int) -> None:
    with pytest.raises(PlanError, match=f"1 to 128, got {n}"):
        plan(p.table(), n)
    if n:
        with pytest.raises(PlanError, match=f"1 to 128, got {n}.*node e"):
            plan(Distinct(Exchange(p.table(), "round_robin", (), n, path="e")))


def test_one_producer_feeds_several_exchanges(p: SimpleNamespace) -> None:
    source = Filter(p.table(), p.call("gt", "a", 1), path="src")
    joined = Join(source, source, (A,), (B,), "semi", strategy="hash", path="j")
    graph = plan(joined)
    assert shape(graph) == [(0, 4, 1, 1), (1, 4, -1)]
    assert edges(graph)[:2] == [("j/left", "hash", 4), ("j/right", "hash", 4)]


def test_shared_work_is_done_once(p: SimpleNamespace) -> None:
    source = Filter(p.table(), p.call("gt", "a", 1), path="src")
    totals = Aggregate(source, (A,), SUM, path="sums")
    graph = plan(Join(source, totals, (A,), (A,), strategy="hash", path="j"))
    scans = [s.stage for s in graph.stages if "Scan" in kinds(s.root)]
    assert scans == [0]
    assert [(e.path, e.kind, e.consumer) for e in graph.outputs[0]] == [
        ("j/left", "hash", 2), ("src", "forward", 1),
    ]  # fmt: skip


def test_a_scan_may_be_read_twice_but_not_a_flight_stream(p: SimpleNamespace) -> None:
    def scans(scan: Scan) -> int:
        left, right = Filter(scan, p.call("gt", "a", 1)), Filter(scan, p.call("gt", "b", 1))
        graph = plan(Join(left, right, (A,), (A,), "semi", strategy="hash"))
        return sum("Scan" in kinds(s.root) for s in graph.stages)

    assert scans(p.file()) == 2
    assert scans(replace(p.file(), source=FlightSource("grpc://x"))) == 1


def test_rows_read_by_two_stages_get_an_edge_each(p: SimpleNamespace) -> None:
    sent = Exchange(p.table(), "hash", ("a",), path="e")
    left, right = Aggregate(sent, (S,), SUM), Distinct(Select(sent, (S,)))
    graph = plan(Join(left, right, (S,), (S,), "semi", strategy="hash"))
    assert [(e.path, e.kind) for e in graph.outputs[0]] == [("e", "hash"), ("e_2", "hash")]
    assert len({e.consumer for e in graph.outputs[0]}) == 2


PIPED = {"mode": "pipelined", "path": "e"}


def test_a_pipelined_diamond_is_one_region(p: SimpleNamespace) -> None:
    source = Filter(p.table(), p.call("gt", "a", 1), path="src")
    branches = tuple(
        Filter(Exchange(source, "round_robin", mode="pipelined"), p.call("gt", "a", n))
        for n in (2, 3)
    )
    config = {"exchange_1": NodeConfig(buffer_batches=1)}
    graph = plan(Union(branches), config=config)
    assert shape(graph) == [(0, 4, 1, 1), (1, 4, -1)]
    assert [s.region for s in graph.stages] == [0, 0]
    assert [s.kind for s in graph.stages] == ["fragment", "chain"]
    assert [e.mode for e in graph.edges] == ["pipelined", "pipelined", "materialised"]
    assert sorted(e.buffer_batches for e in graph.edges) == [0, 0, 1]


def test_pipelined_by_configuration(p: SimpleNamespace) -> None:
    root = Filter(Exchange(p.table(), "hash", ("a",), path="e"), p.call("gt", "a", 1))
    config = {"e": NodeConfig(exchange="pipelined")}
    assert plan(root, config=config).edges[0].mode == "pipelined"


def test_compression_of_an_exchange_by_itself_or_by_configuration(p: SimpleNamespace) -> None:
    sent = Exchange(p.table(), "hash", ("a",), compression="lz4", path="e")
    graph = plan(Filter(sent, p.call("gt", "a", 1)))
    assert [e.compression for e in graph.edges] == ["lz4", "none"]
    assert "partitions, materialised, lz4 between agents\n" in graph_text(graph)
    for chosen in ("zstd", "none"):
        config = {"e": NodeConfig(compression=chosen)}
        assert plan(sent, config=config).edges[0].compression == chosen


def test_pipelined_into_a_blocking_node_is_refused(p: SimpleNamespace) -> None:
    root = Sort(Exchange(p.table(), "gather", **PIPED), (SortKey(A),), path="o")
    with pytest.raises(PlanError, match=r"because sort 'o' after it needs.*node e"):
        plan(root)
    aggregate = Aggregate(p.table(), (A,), SUM, path="by")
    with pytest.raises(PlanError, match=r"because aggregate 'by'.*node by/exchange"):
        plan(aggregate, config={"by": NodeConfig(exchange="pipelined")})
    with_scan = Union((Exchange(p.table("x"), "round_robin", **PIPED), p.table("y")))
    with pytest.raises(PlanError, match="because scan 'y'"):
        plan(with_scan)


def test_edges_that_would_wait_for_each_other(p: SimpleNamespace) -> None:
    source = Filter(p.table(), p.call("gt", "a", 1), path="src")
    piped = Exchange(source, "round_robin", **PIPED)
    auto = Exchange(source, "round_robin", path="other")
    assert [e.mode for e in plan(Union((piped, auto))).edges][:2] == ["pipelined"] * 2
    stubborn = replace(auto, mode="materialised")
    with pytest.raises(PlanError, match=r"can't be materialised.*node other"):
        plan(Union((piped, stubborn)))
    around = Exchange(Distinct(source), "round_robin", path="back")
    with pytest.raises(PlanError, match="both would wait for each other"):
        plan(Union((piped, around)))


def test_sinks(p: SimpleNamespace) -> None:
    parts = Sink(p.table(), FileTarget("parquet", "/out", False), path="w")
    graph = plan(parts)
    assert shape(graph) == [(0, 4, -1)]
    assert graph.stages[0].is_sink
    assert graph.result.schema == pa.schema([("rows", pa.int64())])
    for target in (FileTarget("csv", "/o.csv", True), FlightTarget("grpc://x", ("d",))):
        graph = plan(Sink(p.table(), target, path="w"))
        assert edges(graph) == [("w/gather", "gather", 1), ("w", "forward", 1)]
        assert [s.is_sink for s in graph.stages] == [False, True]
    graph = plan(Sink(p.table(), DatasetTarget("d"), path="w"), config={
        "w": NodeConfig(parallelism=2)
    })  # fmt: skip
    assert shape(graph) == [(0, 2, -1)]


def test_text(p: SimpleNamespace) -> None:
    text = graph_text(plan(Aggregate(p.table(), (A,), SUM, path="by")))
    first = text.splitlines()
    assert first[0] == "stage 0 (by): 4 tasks, fragment"
    assert (
        "  → edge 0 (by/exchange) to stage 1: hash by a, 4 partitions, materialised, adaptive"
        in first
    )
    assert first[-1] == "  → edge 1 (by) to the result: forward, 4 partitions, materialised"


def test_the_same_plan_gives_the_same_stages(p: SimpleNamespace) -> None:
    def once() -> str:
        source = Filter(p.table(), p.call("gt", "a", 1), path="src")
        totals = Aggregate(source, (A,), SUM)
        return graph_text(plan(Join(source, totals, (A,), (A,))))

    assert once() == once()


def test_what_is_volatile_is_computed_once_for_all_that_read_it(p: SimpleNamespace) -> None:
    random = Call("random", (A, Literal(1, pa.int64())))
    drawn = Filter(p.table(), Call("lt", (random, Literal(0.5, pa.float64()))), path="drawn")
    read_twice = Union((drawn, Filter(drawn, p.call("gt", "a", 1))))
    graph = plan(read_twice, 1)
    assert shape(graph) == [(0, 1, 1), (1, 1, -1)]
    assert kinds(graph.stages[0].root) == ["Scan", "Filter"]
    assert not is_determinate(graph.stages[0], graph.outputs[0])
    assert is_determinate(graph.stages[1], graph.outputs[1])
    steady = Filter(p.table(), p.call("gt", "b", 1))
    assert shape(plan(Union((steady, Filter(steady, p.call("gt", "a", 1)))), 1)) == [(0, 1, -1)]
