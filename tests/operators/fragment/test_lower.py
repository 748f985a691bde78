"""Sort, limit, distinct, union, projections and shared nodes."""

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import ExpressionError, InternalError, PlanError
from fabric.operators.fragment import execute_fragment
from fabric.plan.expr import Agg, Alias, Call, Column, Literal, SortKey
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Exchange,
    Filter,
    Join,
    Limit,
    Scan,
    Select,
    Sort,
    StageInput,
    Union,
    WithColumns,
)
from fabric.plan.sources import MemorySource

A = Column("a")
I64 = pa.int64()
FLOATS = st.none() | st.sampled_from([math.nan, -0.0, 0.0, -math.inf, math.inf, 1.5, -2.5])


def rank(value, descending, nulls_last):
    """Spark's order of one value."""
    if value is None:
        return (1 if nulls_last else -1, 0.0, 0.0)
    by = (1.0, 0.0) if math.isnan(value) else (0.0, value + 0.0)
    return (0, *(-b for b in by)) if descending else (0, *by)


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.tuples(FLOATS, st.integers(0, 3)), max_size=20),
    descending=st.booleans(),
    nulls_last=st.booleans(),
)
def test_sort_orders_floats_as_spark_does(values, descending, nulls_last):
    table = pa.table(
        {"a": pa.array([a for a, _ in values], pa.float64()),
         "b": pa.array([b for _, b in values], I64)}
    )  # fmt: skip
    keys = (SortKey(A, descending, nulls_last), SortKey(Column("b")))
    node = Sort(StageInput(0, table.schema), keys)
    inputs = {0: table.to_batches(max_chunksize=3)}
    batches = list(execute_fragment(node, inputs, {}, target_partitions=2, batch_rows=4))
    got = [(row["a"], row["b"]) for batch in batches for row in batch.to_pylist()]
    expected = sorted(values, key=lambda v: (rank(v[0], descending, nulls_last), v[1]))
    same = [(rank(a, descending, nulls_last), b) for a, b in expected]
    assert [(rank(a, descending, nulls_last), b) for a, b in got] == same


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_above_a_sort_keeps_its_order(run, edge, threads):
    n = 10_000
    table = pa.table({"a": [(i * 7919) % n for i in range(n)]})
    ordered = Sort(edge(0, table), (SortKey(A, descending=True),))
    few = Filter(ordered, Call("lt", (A, Literal(9_000, I64))))
    more = WithColumns(few, (Alias(Call("add", (A, Literal(1, I64))), "b"),))
    found = run(more, table, threads=threads, crumb=100)
    assert found["a"].to_pylist() == list(range(8_999, -1, -1))
    top = Select(Limit(more, 3, 1), (Column("b"),))
    assert run(top, table, threads=threads, crumb=100)["b"].to_pylist() == [8999, 8998, 8997]


def test_a_limit_takes_the_first_rows(run, edge):
    table = pa.table({"a": list(range(100))})
    assert run(Limit(edge(0, table), 3), table)["a"].to_pylist() == [0, 1, 2]
    odd = Filter(edge(0, table), Call("gt", (A, Literal(50, I64))))
    assert run(Limit(odd, 2, 3), table)["a"].to_pylist() == [54, 55]
    assert run(Limit(edge(0, table), 0), table).num_rows == 0
    assert run(Limit(edge(0, table), 5, 98), table).num_rows == 2


def test_distinct(run, edge):
    table = pa.table({"a": [math.nan, math.nan, 0.0, -0.0, None, None], "b": [1] * 6})
    found = run(Distinct(edge(0, table)), table)
    assert sorted(map(str, found["a"].to_pylist())) == ["0.0", "None", "nan"]
    assert str(found["a"].to_pylist()).count("-") == 0


def test_union_by_position_in_common_types(run, edge):
    one = pa.table({"a": pa.array([1], pa.int8()), "s": ["x"]})
    two = pa.table({"b": pa.array([2**40], I64), "a": pa.array(["y"], pa.large_string())})
    found = run(Union((edge(0, one), edge(1, two), edge(0, one))), one, two).sort_by("a")
    assert found.to_pydict() == {"a": [1, 1, 2**40], "s": ["x", "x", "y"]}
    assert found.schema.types == [I64, pa.large_string()]


def test_with_columns_replaces_in_place_and_appends(run, edge):
    table = pa.table({"a": [1], "b": [2]})
    exprs = (Alias(Column("b"), "c"), Alias(Call("add", (A, A)), "a"))
    found = run(WithColumns(edge(0, table), exprs, replace=True), table)
    assert list(found.to_pydict().items()) == [("a", [2]), ("b", [2]), ("c", [2])]


def test_a_shared_limit_gives_the_same_rows_to_both(run, edge):
    table = pa.table({"a": list(range(1000))})
    some = Limit(Distinct(edge(0, table)), 10)
    joined = Join(some, some, (A,), (A,))
    assert run(joined, table, crumb=64).num_rows == 10
    total = Aggregate(some, (), (Alias(Agg("sum", A), "s"),))
    both = run(Union((total, total)), table)["s"].to_pylist()
    assert both[0] == both[1]


def test_a_diamond(run, edge, rows):
    table = pa.table({"a": [1, 2, 3]})
    source = edge(0, table)
    small = Filter(source, Call("lt", (A, Literal(3, I64))))
    large = Filter(source, Call("gt", (A, Literal(1, I64))))
    assert rows(run(Union((small, large)), table)) == [(1,), (2,), (2,), (3,)]


@pytest.mark.parametrize("begin", range(4))
def test_functions_of_text_on_slices(run, edge, begin):
    """Slices come back from Rust with a first offset that is not 0."""
    table = pa.table({"s": ["JFK", "lga", None, "b'c", "EWR"]}).slice(begin)
    names = ("upper", "lower", "trim", "length")
    calls = tuple(Alias(Call(name, (Column("s"),)), name) for name in names)
    found = run(Select(edge(0, table), calls), table, crumb=2).to_pydict()
    texts = table["s"].to_pylist()
    for name, function in zip(names, (str.upper, str.lower, str.strip, len), strict=True):
        assert sorted(found[name], key=repr) == sorted(
            (None if text is None else function(text) for text in texts), key=repr
        )


def test_a_thousand_nodes(run, edge):
    table = pa.table({"a": [1, 2, 3]})
    node = edge(0, table)
    for i in range(300):
        node = Filter(node, Call("ne", (A, Literal(i + 10, I64))))
    assert run(node, table).num_rows == 3


def test_an_error_names_the_node_that_can_raise_it(run, edge):
    table = pa.table({"a": [1, 0]})
    inverse = Alias(Call("divide", (Literal(1, I64), A)), "x")
    node = Sort(Select(edge(0, table), (inverse,), path="ratio"), (SortKey(Column("x")),))
    with pytest.raises(ExpressionError, match="division by zero") as caught:
        run(node, table)
    assert caught.value.where.node == "ratio"
    assert "Traceback" not in str(caught.value)


def test_what_a_fragment_can_not_hold(edge):
    table = pa.table({"a": [1]})
    with pytest.raises(InternalError, match="Exchange can't be inside a fragment"):
        list(execute_fragment(Exchange(edge(0, table), "gather"), {0: table.to_batches()}, {}))
    with pytest.raises(InternalError, match="no input for edge 0"):
        list(execute_fragment(edge(0, table), {}, {}))
    scan = Scan(MemorySource("mem-x", 1), table.schema, scan_id=4)
    with pytest.raises(InternalError, match="no splits for scan 4"):
        list(execute_fragment(scan, {}, {}))
    with pytest.raises(PlanError, match="there is no column"):
        execute_fragment(Select(edge(0, table), (Column("z"),)), {}, {})


def test_a_filter_of_constants_above_an_aggregate_without_keys(run, edge):
    source = edge(0, pa.table({"a": pa.array([1, 2], I64)}))
    counted = Aggregate(source, (), (Alias(Agg("count", None), "n"),))
    named = Select(counted, (Alias(Literal(0, I64), "zero"),))
    plan = Filter(named, Call("gt", (Column("zero"), Literal(1, I64))))
    assert run(plan, pa.table({"a": pa.array([1, 2], I64)})).num_rows == 0
