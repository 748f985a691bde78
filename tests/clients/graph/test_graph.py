"""The job graph: the same plan as a DataFrame, and refusals that name the operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import DataFrame, JobGraph, OperatorType, StreamOperatorNode, col, count, sum
from fabric.errors import ConfigError, NotFoundError, PlanError
from fabric.plan.nodes import NodeConfig, Sink
from fabric.plan.printer import tree

QUOTES = {"id": [1, 2, 1, 3], "price": [5.0, 50.0, 500.0, 7.0]}
SECURITIES = {"id": [1, 2], "name": ["one", "two"]}
T = OperatorType


def node(kind: OperatorType, name: str, **parameters: Any) -> StreamOperatorNode:
    return StreamOperatorNode(operator_type=kind, name=name, parameters=parameters)


@pytest.fixture
def graph() -> JobGraph:
    """Two sources, a filter, a join, a sink: connected but for the sink."""
    graph = JobGraph(job_name="example")
    operators = [
        node(T.SOURCE, "quotes", data=QUOTES),
        node(T.SOURCE, "securities", data=SECURITIES),
        node(T.FILTER, "filter_price", predicate=col("price") > 6),
        node(T.HASH_JOIN, "enrich", on="id"),
        node(T.SINK, "output"),
    ]
    for operator in operators:
        assert graph.add_operator(operator) == operator.operator_id
    graph.connect("quotes", "filter_price")
    graph.connect(operators[2], operators[3])
    graph.connect("securities", "enrich")
    return graph


def test_the_plan_is_the_frame_s(graph: JobGraph) -> None:
    graph.connect("enrich", "output")
    quotes = DataFrame(QUOTES).named("quotes")
    late = quotes.filter(col("price") > 6).named("filter_price")
    frame = late.join(DataFrame(SECURITIES).named("securities"), on="id").named("enrich")
    assert tree(graph.plan.root) == tree(frame.plan.root)
    rows = sorted(graph.collect().to_pylist(), key=lambda row: row["id"])
    assert rows == [
        {"id": 1, "price": 500.0, "name": "one"}, {"id": 2, "price": 50.0, "name": "two"},
    ]  # fmt: skip
    assert "enrich" in graph.explain()
    assert graph.connections == [
        ("quotes", "filter_price"), ("filter_price", "enrich"), ("securities", "enrich"),
        ("enrich", "output"),
    ]  # fmt: skip


def test_every_operator_is_a_verb(tmp_path: Path) -> None:
    items = {"k": ["a", "a", "b"], "t": [1, 2, 3], "xs": [[1, 2], [], [3]]}
    graph = JobGraph("all of them")
    flat = graph.source("items", data=items).flat_map("xs", position="at", name="values")
    doubled = flat.map({"y": col("xs") * 2}).filter(col("y") > 0, col("t") < 9)
    ranked = doubled.key_by("k").window(
        {"so_far": col("y").sum()}, order_by=["t", "at"], range=(None, 0)
    )  # fmt: skip
    times = graph.source("times", frame=DataFrame({"t": [0, 3], "label": ["early", "late"]}))
    near = ranked.asof_join(times, "t").select("k", "y", "so_far", "label")
    both = near.union(near.filter(col("y") > 4)).distinct().sort("k", "y").limit(10, offset=1)
    target = tmp_path / "out.parquet"
    both.sink(parquet=target, name="out")
    frame = (
        DataFrame(items).explode("xs", position="at").with_columns(y=col("xs") * 2)
        .filter(col("y") > 0, col("t") < 9)
        .with_columns(so_far=col("y").sum().over("k", order_by=["t", "at"], range=(None, 0)))
        .join_asof(DataFrame({"t": [0, 3], "label": ["early", "late"]}), on="t")
        .select("k", "y", "so_far", "label")
    )  # fmt: skip
    wanted = frame.union(frame.filter(col("y") > 4)).distinct().sort("k", "y").limit(10, 1)
    assert graph.submit().wait().state == "finished"
    assert pq.read_table(target).to_pylist() == wanted.to_dicts() != []
    kinds = {operator.operator_type for operator in graph.operators.values()}
    assert kinds == set(T) - {T.AGGREGATE, T.HASH_JOIN}
    assert isinstance(graph.plan.root, Sink)
    assert graph.plan.root.path == "out"


def test_keys_reach_the_aggregate() -> None:
    graph = JobGraph()
    quotes = graph.source("quotes", data=QUOTES)
    keyed = quotes.key_by("id").filter(col("price") > 6)
    keyed.aggregate([sum("price"), count().alias("n")], name="per id")
    frame = DataFrame(QUOTES).named("quotes").filter(col("price") > 6)
    wanted = frame.group_by("id").agg(sum("price"), count().alias("n")).named("per id")
    assert graph.frame("per id").schema == wanted.schema
    assert sorted(graph.collect().to_pylist(), key=str) == sorted(wanted.to_dicts(), key=str)
    total = quotes.aggregate({"n": count()})
    assert total.frame.collect().to_pylist() == [{"n": 4}]


def test_sources_and_sinks_of_files_and_datasets(tmp_path: Path) -> None:
    path = tmp_path / "quotes.csv"
    path.write_text("id;price\n1;NA\n2;3.5\n")
    graph = JobGraph("files")
    source = graph.source("csv", csv=path, options={"delimiter": ";", "null_values": "NA"})
    source.sink(csv=tmp_path / "out", name="out", mode="overwrite")
    assert graph.frame("csv").collect().to_pylist() == [
        {"id": 1, "price": None}, {"id": 2, "price": 3.5},
    ]  # fmt: skip
    graph.submit().wait()
    graph.submit(sink="out").wait()
    assert fabric.read_csv(tmp_path / "out").count() == 2


def test_a_dataset_is_written_with_as_many_replicas_as_there_are_agents() -> None:
    graph = JobGraph("twice")
    graph.source("quotes", data=QUOTES).sink(dataset="quotes-twice", replicas=2)
    with pytest.raises(ConfigError, match="replicas=2 needs as many agents, and 1 is attached"):
        graph.submit()


def test_a_source_feeds_several(graph: JobGraph) -> None:
    graph.connect("enrich", "output")
    second = node(T.SINK, "cheap")
    graph.add_operator(second)
    graph.connect("quotes", second)
    with pytest.raises(PlanError, match=r'2 SINKs: "output", "cheap".*submit\("output"\)'):
        graph.submit()
    with graph.submit("cheap") as job:
        assert job.wait().collect().num_rows == 4
    assert graph.frame("cheap").count() == 4


def test_settings_of_an_operator() -> None:
    graph = JobGraph()
    graph.add_operator(StreamOperatorNode(T.SOURCE, "quotes", {"data": QUOTES}))
    graph.add_operator(StreamOperatorNode(T.FILTER, "some", {"predicate": col("id") > 1}, 2))
    graph.connect("quotes", "some")
    assert dict(graph.plan.config) == {"some": NodeConfig(parallelism=2)}


# ---- what is refused where it is written
@pytest.mark.parametrize(
    ("upper", "lower", "says"),
    [
        ("quote", "filter_price", 'no operator "quote" in this graph; did you mean "quotes"'),
        ("quotes", "filter_price", "connected already"),
        ("securities", "filter_price",
         r'a FILTER takes 1 input, and has "quotes"; write: .*OperatorType\.UNION'),
        ("output", "enrich", "a SINK puts out no rows"),
        ("enrich", "quotes", r'takes no input; write: graph\.connect\("quotes", "enrich"\)'),
        ("enrich", "filter_price",
         'would close a cycle: "filter_price" → "enrich" → "filter_price"'),
        ("enrich", "enrich", 'would close a cycle: "enrich" → "enrich"'),
        ("quotes", "enrich", 'takes 2 inputs, and has "filter_price", "securities"'),
    ],
)  # fmt: skip
def test_connections_refused(graph: JobGraph, upper: str, lower: str, says: str) -> None:
    before = graph.connections
    with pytest.raises(PlanError, match=says):
        graph.connect(upper, lower)
    assert graph.connections == before


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: StreamOperatorNode("FILTR", "x"), r"write: OperatorType\.FILTER"),
        (lambda: node(T.FILTER, ""), r'StreamOperatorNode\(OperatorType\.FILTER, "filter"\)'),
        (lambda: node(T.FILTER, "a*"), "a name without"),
        (lambda: node(T.FILTER, "a", predicat=1),
         r'takes no "predicat", did you mean "predicate".*{"predicate": …}'),
        (lambda: JobGraph().add_operator("x"), "takes a StreamOperatorNode"),
        (lambda: JobGraph().validate(), "has no operators"),
        (lambda: JobGraph().source("x", parquet="no/such.parquet"), "there is no file"),
        (lambda: JobGraph().source("x", data=QUOTES).sink(mode="overwrite"), "and no target"),
        (lambda: JobGraph().source("x", data=QUOTES).sink(csv="a", ipc="b"), "several targets"),
        (lambda: JobGraph().source("x", data=QUOTES, csv="a"), "several beginnings"),
        (lambda: JobGraph().source("x", frame=QUOTES), "frame takes a DataFrame"),
        (lambda: JobGraph().source("x", data=QUOTES).filter(col("prise") > 1, name="f"),
         r'FILTER "f": there is no column "prise".*write: \.filter\(col\("price"\) > 1\)'),
        (lambda: JobGraph().source("x", data=QUOTES).key_by("idd"),
         r'KEY_BY "key_by_1": there is no column "idd"'),
        (lambda: JobGraph().source("x", data=QUOTES).union(DataFrame(QUOTES)),
         "takes streams of the same graph"),
        (lambda: JobGraph().source("x", data=QUOTES).hash_join(
            JobGraph().source("y", data=QUOTES), "id"), "takes streams of the same graph"),
    ],
)  # fmt: skip
def test_operators_refused(make: Any, says: str) -> None:
    with pytest.raises((PlanError, NotFoundError), match=says):
        make()


def test_a_refused_step_leaves_the_graph_as_it_was() -> None:
    graph = JobGraph()
    quotes = graph.source("quotes", data=QUOTES)
    with pytest.raises(PlanError, match="did you mean"):
        quotes.filter(col("prise") > 1, name="late")
    assert list(graph.operators) == ["quotes"]
    with pytest.raises(PlanError, match=r'an operator called "quotes" already.*"quotes_2"'):
        graph.source("quotes", data=QUOTES)
    with pytest.raises(PlanError, match="is not the one in this graph"):
        graph.connect(node(T.SOURCE, "quotes", data=QUOTES), "quotes")


def test_what_is_missing_is_named_before_anything_runs(graph: JobGraph) -> None:
    with pytest.raises(PlanError, match=r'SINK "output" takes 1 input and has none; write: '
                       r'graph\.connect\("enrich", "output"\)'):  # fmt: skip
        graph.plan  # noqa: B018
    graph.connect("enrich", "output")
    graph.add_operator(node(T.SOURCE, "lost", data=QUOTES))
    with pytest.raises(
        PlanError, match=r'the output of "lost" goes nowhere; write: graph\.connect'
    ) as e:
        graph.submit()
    assert e.value.where.node == "lost"
    lone = JobGraph()
    lone.source("a", data=QUOTES)
    lone.source("b", data=QUOTES)
    with pytest.raises(PlanError, match='"a" goes nowhere'):
        lone.validate()
    bare = JobGraph()
    bare.add_operator(node(T.SOURCE, "quotes"))
    bare.add_operator(node(T.FILTER, "late"))
    bare.connect("quotes", "late")  # parameters may still be missing here
    with pytest.raises(PlanError, match=r'SOURCE "quotes" lacks its "frame" or "data".*parquet'):
        bare.validate()
    join = JobGraph()
    join.source("a", data=QUOTES)
    join.add_operator(node(T.HASH_JOIN, "both", on="id"))
    join.connect("a", "both")
    with pytest.raises(PlanError, match='takes 2 inputs and has "a" only'):
        join.validate()


def test_repr_shows_the_graph(graph: JobGraph) -> None:
    assert repr(graph).splitlines()[4] == '  HASH_JOIN "enrich" ← "filter_price", "securities"'
    assert repr(graph.source("more", data=QUOTES)) == 'Stream(SOURCE "more")'
    assert pa.table(SECURITIES).num_rows == graph.frame("securities").count()
