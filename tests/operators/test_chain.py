"""Chains: the same rows as fragments, whatever the batches and the wiring."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import ExpressionError, InternalError, PlanError
from fabric.event_time import BEGINNING, END_OF_TIME, IDLE
from fabric.operators import chain as chain_module
from fabric.operators.chain import build_chain
from fabric.operators.contract import Context, Files, Operator
from fabric.operators.fragment import execute_fragment
from fabric.operators.node_operators import unsupported
from fabric.operators.snapshots import N_KEY_GROUPS
from fabric.plan.event_windows import Tumbling
from fabric.plan.expr import Agg, Alias, Call, Case, Column, Literal, SortKey
from fabric.plan.nodes import (
    Aggregate,
    Deduplicate,
    Filter,
    Limit,
    Select,
    Sort,
    StageInput,
    StreamAggregate,
    StreamScan,
    Union,
    Watermark,
    WithColumns,
)
from fabric.plan.schema import schema_of
from fabric.plan.sources import GeneratorStream
from fabric.testing.operators import Kept

A, I64 = Column("a"), pa.int64()
SCHEMA = pa.schema([("a", I64), ("s", pa.string())])
SOURCE = StageInput(0, SCHEMA)
MORE = Filter(SOURCE, Call("gt", (A, Literal(3, I64))), path="more")
FEW = Filter(SOURCE, Call("is_null", (A,)), path="few")
CASE = Case(((Call("gt", (A, Literal(5, I64))), Column("s")),), Literal("-", pa.string()))
PLANS = {
    "filter": MORE,
    "project": Select(SOURCE, (Alias(Call("add", (A, A)), "b"), Column("s"))),
    "with_columns": WithColumns(SOURCE, (Alias(CASE, "c"), Alias(CASE, "s")), replace=True),
    "diamond": Union((MORE, FEW)),
    "widened": Union((Select(MORE, (Alias(Literal(1.5, pa.float64()), "x"),)), Select(FEW, (A,)))),
    "deep": Select(WithColumns(Filter(Union((MORE, FEW)), Call("not", (Call("eq", (A, A)),))),
                               (Alias(A, "z"),)), (Column("z"),)),
}  # fmt: skip
ROWS = st.lists(st.tuples(st.none() | st.integers(0, 9), st.sampled_from(["x", "y", None])))


def run(root, batches, edge=0):
    chain = build_chain(root)
    out = [row for batch in batches for row in chain.on_batch(edge, batch)]
    out += chain.on_end(edge)
    assert chain.done
    chain.close()
    assert all(batch.schema.equals(schema_of(root), check_metadata=True) for batch in out)
    return pa.Table.from_batches(out, schema_of(root))


def ordered(table):
    return sorted(map(repr, zip(*table.to_pydict().values(), strict=True)))


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, plan=st.sampled_from(sorted(PLANS)), crumb=st.integers(1, 5))
def test_agrees_with_the_fragment(rows, plan, crumb):
    root = PLANS[plan]
    table = pa.Table.from_pylist([{"a": a, "s": s} for a, s in rows], SCHEMA)
    found = run(root, table.to_batches(max_chunksize=crumb))
    batches = list(execute_fragment(root, {0: table.to_batches()}, {}))
    assert ordered(found) == ordered(pa.Table.from_batches(batches, schema_of(root)))


def test_one_edge_may_feed_two_branches_and_two_edges_one_union():
    other = StageInput(7, pa.schema([("n", pa.int32()), ("t", pa.large_string())]))
    chain = build_chain(Union((SOURCE, other, SOURCE)))
    assert chain.inputs == [0, 7]
    one = pa.record_batch({"a": [1], "s": ["x"]}, SCHEMA)
    two = pa.record_batch({"n": [2], "t": ["y"]}, other.schema)
    assert [b.to_pydict() for b in chain.on_batch(0, one)] == [{"a": [1], "s": ["x"]}] * 2
    assert [b.to_pydict() for b in chain.on_batch(7, two)] == [{"a": [2], "s": ["y"]}]
    assert chain.on_end(0) == []
    assert not chain.done
    assert chain.on_end(7) == []
    assert chain.done
    with pytest.raises(InternalError, match="edge 7 is not one of the chain's, or has ended"):
        chain.on_batch(7, two)


def test_a_limit_ends_the_chain_early():
    root = Select(Limit(MORE, 2, 1), (A,))
    chain = build_chain(root)
    batch = pa.record_batch({"a": [4, 1, 5, 6, 7, 8], "s": ["x"] * 6}, SCHEMA)
    assert [b.to_pydict() for b in chain.on_batch(0, batch)] == [{"a": [5, 6]}]
    assert chain.done
    assert chain.on_batch(0, batch) == []
    half = build_chain(Union((Limit(SOURCE, 1), MORE)))
    assert sum(b.num_rows for b in half.on_batch(0, batch)) == 6
    assert not half.done
    assert build_chain(Limit(SOURCE, 0)).done


def test_names_and_metadata_of_the_batches_do_not_matter():
    batch = pa.record_batch([[5], ["x"]], pa.schema([("p", I64), ("q", pa.string())], {"k": "v"}))
    (found,) = build_chain(MORE).on_batch(0, batch)
    assert found.to_pydict() == {"a": [5], "s": ["x"]}


def test_an_error_names_its_node():
    bad = Select(SOURCE, (Alias(Call("divide", (A, Literal(0, I64))), "x"),), path="ratio")
    chain = build_chain(Limit(bad, 5))
    with pytest.raises(ExpressionError, match=r"division by zero.*\(node ratio\)"):
        chain.on_batch(0, pa.record_batch({"a": [1], "s": ["x"]}, SCHEMA))


def test_what_a_chain_can_not_run_is_named():
    total = Aggregate(MORE, (), (Alias(Agg("count", None), "n"),), path="total")
    assert unsupported(Limit(total, 1)) == "total"
    assert unsupported(Sort(SOURCE, (SortKey(A),))) == "sort"
    assert unsupported(PLANS["deep"]) is None
    with pytest.raises(PlanError, match="total needs all its input at once") as caught:
        build_chain(total)
    assert caught.value.where.node == "total"


def test_a_thousand_nodes():
    node = SOURCE
    for i in range(1000):
        node = Filter(node, Call("ne", (A, Literal(i + 10, I64))))
    assert run(node, [pa.record_batch({"a": [1], "s": ["x"]}, SCHEMA)]).num_rows == 1


class Noting(Operator):
    """Says what it is told, as rows: the kind of call and its number."""

    def __init__(self):
        self.said = []

    def on_batch(self, input, batch):
        return [batch]

    def on_watermark(self, time_us):
        return self._row("watermark", time_us)

    def on_time(self, now_us):
        return self._row("time", now_us)

    def on_end(self, input):
        return self._row("end", input)

    def on_split(self, split):
        self.said.append(split)

    def on_barrier(self, checkpoint):
        return Files({"said": repr(checkpoint).encode()})

    def restore(self, snapshots, key_groups):
        self.said += [snapshot.read("said").to_pybytes() for snapshot in snapshots]

    def _row(self, kind, value):
        self.said.append((kind, value))
        return []


@pytest.fixture
def noting(monkeypatch):
    """Every union of a chain is a `Noting`, by path."""
    made = []

    def operator(*_):
        made.append(Noting())
        return made[-1]

    monkeypatch.setattr(chain_module, "operator_of", operator)
    return made


def test_time_is_the_least_of_the_inputs_and_never_goes_back(noting):
    chain = build_chain(Union((SOURCE, StageInput(1, SCHEMA)), path="both"))
    (both,) = noting
    chain.on_watermark(0, 50)
    assert (both.said, chain.watermarks[""]) == ([], BEGINNING)
    chain.on_watermark(1, 40)
    assert (both.said, chain.watermarks[""]) == ([("watermark", 40)], 40)
    chain.on_watermark(1, IDLE)
    assert (both.said[1:], chain.watermarks[""]) == ([("watermark", 50)], 50)
    chain.on_watermark(0, IDLE)
    assert (len(both.said), chain.watermarks[""]) == (2, IDLE)
    chain.on_watermark(1, 45)  # back again, and late
    assert (len(both.said), chain.watermarks[""]) == (2, 50)
    chain.on_end(0)
    chain.on_watermark(1, 60)
    assert chain.watermarks[""] == 60
    chain.on_end(1)
    assert both.said[2:] == [("end", 0), ("watermark", 60), ("watermark", END_OF_TIME), ("end", 1)]
    assert chain.watermarks[""] == END_OF_TIME


def test_all_operators_hear_of_splits_time_and_checkpoints(noting):
    below = Union((SOURCE,), path="below")
    chain = build_chain(Union((below,), path="above"))
    chain.on_split(0, "p0")
    chain.on_time(7)
    assert [operator.said for operator in noting] == [["p0", ("time", 7)]] * 2
    snapshots = chain.on_barrier(3)
    assert sorted(snapshots) == ["above", "below"]
    kept = {path: Kept() for path in snapshots}
    for path, snapshot in snapshots.items():
        snapshot.write(kept[path])
    chain.restore(lambda path: [kept[path]], range(5))
    assert [operator.said[2:] for operator in noting] == [[b"3"]] * 2


def test_splits_of_two_sources_may_be_called_alike():
    """The end of one, and how far it is, say nothing of the other."""
    times = pa.schema([("at", pa.timestamp("us"))])
    one, two = (
        Watermark(StreamScan(GeneratorStream(), times, scan_id=i), "at", 0, drift_us=30, path=name)
        for i, name in enumerate(("one", "two"))
    )
    chain = build_chain(Union((one, two)), splits={-1: ["a"], -2: ["a", "b"]})

    def sent(edge, split, at):
        chain.on_split(edge, split)
        rows = pa.record_batch([pa.array([at], times.field("at").type)], times)
        assert chain.on_batch(edge, rows)
        return chain.watermarks[""]

    assert sent(-1, "a", 50) == BEGINNING
    chain.on_split_end(-1, "a")
    chain.on_end(-1)
    assert sent(-2, "a", 90) == BEGINNING
    assert sent(-2, "b", 40) == 40
    assert chain.held_back() == {-2: {"a"}}
    assert sent(-2, "b", 80) == 80
    assert chain.held_back() == {}


@pytest.mark.parametrize("engines", [("arrow", "memory"), ("memory", "tonbo"), ("tonbo", "arrow")])
def test_each_node_has_its_state_where_that_is_said_of_it(tmp_path, engines):
    """And what one engine has put down, any other takes up."""
    root = Deduplicate(Deduplicate(SOURCE, (A,), path="one"), (Column("s"),), path="two")
    first, then = (
        Context(
            folder=tmp_path / str(n), state="arrow", state_bytes=1 << 30,
            states={"one": (engine, None if engine == "memory" else 1), "two": ("memory", None)},
        )
        for n, engine in enumerate(engines)
    )  # fmt: skip
    seen = pa.record_batch({"a": list(range(99)), "s": [str(n) for n in range(99)]}, SCHEMA)
    chain = build_chain(root, first)
    assert sum(batch.num_rows for batch in chain.on_batch(0, seen)) == 99
    told = chain.counts()
    evicted = {path: counts.get("state_evicted_rows", 0) for path, counts in told.items()}
    assert evicted.get("one", 0) == (99 if engines[0] != "memory" else 0)
    assert evicted.get("two", 0) == 0
    kept = {path: Kept() for path in ("one", "two")}
    for path, snapshot in chain.on_barrier(1).items():
        if path in kept:
            snapshot.write(kept[path])
    chain.close()
    again = build_chain(root, then)
    again.restore(lambda path: [kept[path]] if path in kept else [], range(N_KEY_GROUPS))
    more = pa.record_batch({"a": [98, 99, 0], "s": ["new", "more", "other"]}, SCHEMA)
    assert [b.to_pydict() for b in again.on_batch(0, more)] == [{"a": [99], "s": ["more"]}]
    again.close()


def test_rows_in_flight_come_before_what_sources_know_of_time():
    """They were late to a window that the restored watermark of the source had closed."""
    times = pa.schema([("at", pa.timestamp("us"))])
    scan = StreamScan(GeneratorStream(), times, scan_id=0)
    timed = Watermark(scan, "at", 0, path="timed")
    root = StreamAggregate(
        timed, (), (Alias(Agg("count", None), "n"),), Tumbling(10), "at", path="windows"
    )
    kept = Kept()
    before = build_chain(timed, splits={-1: ["a"]})
    before.on_split(-1, "a")
    before.on_batch(-1, pa.record_batch([pa.array([50], times.field("at").type)], times))
    before.on_barrier(1)["timed"].write(kept)
    chain = build_chain(root, splits={-1: ["a"]})
    chain.restore(lambda path: [kept] if path == "timed" else [], range(N_KEY_GROUPS))
    chain.replaying = True
    out = chain.on_time(1)
    in_flight = pa.record_batch([pa.array([3, 12], times.field("at").type)], times)
    out += chain.on_rows_into("windows", in_flight)
    assert (out, chain.watermarks[""]) == ([], BEGINNING)
    chain.replaying = False
    out = chain.on_time(2)
    assert pa.Table.from_batches(out)["n"].to_pylist() == [1, 1]
    assert chain.watermarks[""] == 50


@pytest.mark.parametrize(("name", "value"), [("b", 1.5), ("a", 7)])
def test_rows_in_flight_into_a_union_come_to_the_input_of_their_columns(name, value):
    floats = pa.schema([("b", pa.float64())])
    root = Union((StageInput(0, floats), Select(StageInput(1, SCHEMA), (A,))), path="both")
    chain = build_chain(root)
    (out,) = chain.on_rows_into("both", pa.record_batch({name: [value]}))
    assert out.to_pydict() == {"b": [float(value)]}
