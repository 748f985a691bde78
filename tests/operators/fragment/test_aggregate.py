"""Aggregates: against DuckDB, in one phase and in two, and where Spark's rules differ."""

import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import ExpressionError
from fabric.operators.fragment import execute_fragment
from fabric.plan.expr import Agg, Alias, Call, Column, Literal
from fabric.plan.nodes import Aggregate, StageInput, WithColumns
from fabric.plan.schema import schema_of

A, G = Column("a"), Column("g")
I64 = pa.int64()


def agg(function, column="a", name="r"):
    return Alias(Agg(function, Column(column)), name)


def two_phases(node, table, n_tasks=3):
    """What partial tasks and one final task make of `node`."""
    partial = Aggregate(node.input, node.keys, node.aggs, "partial")
    middle = schema_of(partial)
    keys = tuple(Column(name) for name in middle.names[: len(node.keys)])
    final = Aggregate(StageInput(1, middle), keys, node.aggs, "final")
    step = max(1, -(-table.num_rows // n_tasks))
    states = []
    for task in range(n_tasks):
        part = table.slice(task * step, step)
        states += execute_fragment(partial, {0: part.to_batches(max_chunksize=2)}, {})
    assert all(state.schema.equals(middle) for state in states)
    batches = list(execute_fragment(final, {1: states}, {}))
    assert schema_of(final).equals(schema_of(node))
    return pa.Table.from_batches(batches, schema_of(node))


VALUES = st.lists(
    st.tuples(st.sampled_from(["x", "y", None]), st.none() | st.integers(-(2**40), 2**40)),
    max_size=30,
)


@settings(max_examples=30, deadline=None)
@given(values=VALUES)
def test_integers_agree_with_duckdb_in_one_and_two_phases(values):
    import duckdb

    table = pa.table(
        {"g": pa.array([g for g, _ in values], pa.string()),
         "a": pa.array([a for _, a in values], I64)}
    )  # fmt: skip
    aggs = (
        agg("sum", name="s"), agg("count", name="n"), agg("min", name="lo"),
        agg("max", name="hi"), agg("mean", name="m"), Alias(Agg("count", None), "all"),
    )  # fmt: skip
    node = Aggregate(StageInput(0, table.schema), (G,), aggs)
    single = pa.Table.from_batches(
        list(
            execute_fragment(
                node, {0: table.to_batches(max_chunksize=2)}, {}, target_partitions=2, batch_rows=4
            )
        ),
        schema_of(node),
    )
    both = two_phases(node, table)
    with duckdb.connect() as database:
        database.register("t", table)
        expected = database.execute(
            "select g, sum(a)::bigint s, count(a) n, min(a) lo, max(a) hi, avg(a) m, count(*) "
            "from t group by g"
        ).fetchall()
    for found in (single, both):
        got = sorted(zip(*found.to_pydict().values(), strict=True), key=repr)
        for one, two in zip(got, sorted(expected, key=repr), strict=True):
            assert one[:5] == two[:5]
            assert one[6] == two[6]
            mean = two[5] if two[5] is None else pytest.approx(two[5], rel=1e-9)
            assert one[5] == mean


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        (pa.int8(), I64), (pa.int16(), I64), (pa.int32(), I64), (pa.int64(), I64),
        (pa.uint8(), I64), (pa.uint16(), I64), (pa.uint32(), I64),
        (pa.uint64(), pa.decimal128(30, 0)), (pa.float32(), pa.float64()),
        (pa.float64(), pa.float64()), (pa.decimal128(10, 2), pa.decimal128(20, 2)),
        (pa.dictionary(pa.int32(), I64), I64),
    ],
)  # fmt: skip
def test_sum_types(run, edge, dtype, result):
    values = pa.array(
        [Decimal(1), None, Decimal(3)] if pa.types.is_decimal(dtype) else [1, None, 3]
    )
    if pa.types.is_dictionary(dtype):
        values = values.dictionary_encode()
    table = pa.table({"a": values.cast(dtype)})
    node = Aggregate(edge(0, table), (), (agg("sum"),))
    assert schema_of(node).field("r").type == result
    assert run(node, table).to_pydict() == {"r": [4]}
    assert two_phases(node, table).to_pydict() == {"r": [4]}


@pytest.mark.parametrize("values", [[2**63 - 1, 1], [-(2**63), -1], [2**62] * 4])
def test_an_int64_sum_that_overflows_is_an_error(run, edge, values):
    table = pa.table({"a": pa.array(values, I64)})
    node = Aggregate(edge(0, table), (), (agg("sum", name="total"),), path="agg_1")
    with pytest.raises(ExpressionError, match=r"the sum 'total' does not fit in int64.*agg_1"):
        run(node, table)
    with pytest.raises(ExpressionError, match="does not fit in int64"):
        two_phases(node, table, n_tasks=2)


@pytest.mark.parametrize(
    "values", [[2**63 - 1, 1, -1], [-(2**63), 0], [2**62, 2**62, -5, -(2**62)]]
)
def test_an_int64_sum_that_only_passes_the_bound_on_the_way_is_right(run, edge, values):
    table = pa.table({"a": pa.array(values, I64)})
    node = Aggregate(edge(0, table), (), (agg("sum"),))
    assert run(node, table)["r"].to_pylist() == [sum(values)]
    assert two_phases(node, table)["r"].to_pylist() == [sum(values)]


def test_a_decimal_sum_of_38_digits_that_overflows_is_an_error(run, edge):
    big = Decimal(9 * 10**37)
    table = pa.table({"a": pa.array([big, big, big], pa.decimal128(38, 0))})
    with pytest.raises(ExpressionError, match="the sum 'r' does not fit in decimal128"):
        run(Aggregate(edge(0, table), (), (agg("sum"),)), table)
    small = table.slice(0, 1)
    assert run(Aggregate(edge(0, table), (), (agg("sum"),)), small)["r"].to_pylist() == [big]


def test_a_decimal_mean_keeps_four_more_digits_and_rounds_half_up(run, edge):
    values = [Decimal("1.00"), Decimal("1.00"), Decimal("0.00")]
    table = pa.table({"a": pa.array(values, pa.decimal128(10, 2))})
    node = Aggregate(edge(0, table), (), (agg("mean"),))
    assert schema_of(node).field("r").type == pa.decimal128(14, 6)
    assert run(node, table)["r"].to_pylist() == [Decimal("0.666667")]
    assert two_phases(node, table)["r"].to_pylist() == [Decimal("0.666667")]


def test_nan_is_the_largest_and_zeros_are_one(run, edge):
    nan = math.nan
    table = pa.table({"g": [1, 1, 2, 2, 3, 3, 4], "a": [nan, 1.0, -0.0, 0.0, nan, None, None]})
    aggs = (agg("min", name="lo"), agg("max", name="hi"))
    node = Aggregate(edge(0, table), (G,), aggs)
    for found in (run(node, table), two_phases(node, table)):
        ordered = found.sort_by("g").to_pydict()
        assert [str(v) for v in ordered["lo"]] == ["1.0", "0.0", "nan", "None"]
        assert [str(v) for v in ordered["hi"]] == ["nan", "0.0", "nan", "None"]
    distinct = Aggregate(edge(0, table), (G,), (agg("count_distinct", name="d"),))
    assert run(distinct, table).sort_by("g")["d"].to_pylist() == [2, 1, 1, 0]
    everything = Aggregate(edge(0, table), (), aggs)
    for found in (run(everything, table), two_phases(everything, table)):
        assert str(found.to_pylist()) == "[{'lo': 0.0, 'hi': nan}]"


def test_float_keys_group_every_nan_and_both_zeros_together(run, edge):
    odd = pa.array([0xFFF8000000000001, 0x7FF8000000000000], pa.uint64()).view(pa.float64())
    keys = pa.chunked_array([pa.array([0.0, -0.0, None, None]), odd])
    table = pa.table({"g": keys, "h": [1] * 6})
    node = Aggregate(edge(0, table), (G, Column("h")), (Alias(Agg("count", None), "n"),))
    for found in (run(node, table), two_phases(node, table)):
        shown = {
            str(g): n for g, n in zip(found["g"].to_pylist(), found["n"].to_pylist(), strict=True)
        }
        assert shown == {"0.0": 2, "None": 2, "nan": 2}


def test_no_rows(run, edge):
    table = pa.table({"g": pa.array([], pa.string()), "a": pa.array([], I64)})
    aggs = (agg("sum", name="s"), agg("mean", name="m"), agg("count", name="n"))
    for phases in (run, two_phases):
        found = phases(Aggregate(edge(0, table), (), aggs), table)
        assert found.to_pylist() == [{"s": None, "m": None, "n": 0}]
        assert phases(Aggregate(edge(0, table), (G,), aggs), table).num_rows == 0


def test_only_keys_is_distinct(run, edge, rows):
    table = pa.table({"g": ["x", "x", None], "a": [1, 1, 2]})
    assert rows(run(Aggregate(edge(0, table), (G, A), ()), table)) == [("x", 1), (None, 2)]


def test_keys_and_inputs_are_expressions(run, edge):
    table = pa.table({"a": [1, 2, 3, 4]})
    even = Alias(Call("modulo", (A, Literal(2, I64))), "odd")
    total = Alias(Agg("sum", Call("multiply", (A, A))), "squares")
    found = run(Aggregate(edge(0, table), (even,), (total,)), table).sort_by("odd")
    assert found.to_pydict() == {"odd": [0, 1], "squares": [20, 10]}


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["b", "a", None]), pa.array([b"b", b"a"]), pa.array([True, False]),
        pa.array([2, 1], pa.date32()), pa.array([2, 1], pa.timestamp("us", "UTC")),
        pa.array([Decimal("2.5"), Decimal("1.5")]), pa.array(["b", "a"], pa.large_string()),
        pa.array(["b", "a"], pa.string_view()), pa.array(["b", "a"]).dictionary_encode(),
        pa.array([2, 1], pa.uint64()), pa.array([2, 1], pa.duration("us")),
        pa.array([2.0, 1.0], pa.float32()), pa.array([2, 1], pa.time64("us")),
    ],
    ids=lambda values: str(values.type),
)  # fmt: skip
def test_min_and_max_of_every_type(run, edge, values):
    table = pa.table({"a": values})
    found = run(
        Aggregate(edge(0, table), (), (agg("min", name="lo"), agg("max", name="hi"))), table
    )
    known = sorted(v for v in values.to_pylist() if v is not None)
    assert found.to_pydict() == {"lo": [known[0]], "hi": [known[-1]]}


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["b", "b", None]).dictionary_encode(), pa.array([b"b", b"b", None]),
        pa.array(["b", "b", None], pa.string_view()), pa.array([[1], [1], None]),
        pa.array([{"x": 1}, {"x": 1}, None]), pa.array([1, 1, None], pa.date32()),
        pa.array([True, True, None]), pa.array([Decimal("1.5"), Decimal("1.5"), None]),
    ],
    ids=lambda keys: str(keys.type),
)  # fmt: skip
def test_group_keys_of_every_type(run, edge, keys):
    table = pa.table({"g": keys})
    node = Aggregate(edge(0, table), (G,), (Alias(Agg("count", None), "n"),))
    found = run(node, table)
    shown = {
        repr(g): n for g, n in zip(found["g"].to_pylist(), found["n"].to_pylist(), strict=True)
    }
    assert shown == {repr(keys[0].as_py()): 2, "None": 1}


@pytest.mark.parametrize("value", [None, 7])
@pytest.mark.parametrize("n_rows", [0, 5])
def test_count_distinct_of_a_constant(run, edge, value, n_rows):
    """DataFusion's statistics of a constant say 1, for null and for no rows too."""
    table = pa.table({"a": pa.array(range(n_rows), I64)})
    constant = Literal(value, I64)
    named = WithColumns(edge(0, table), (Alias(constant, "c"),))
    aggs = (Alias(Agg("count_distinct", Column("c")), "x"),
            Alias(Agg("count_distinct", constant), "y"))  # fmt: skip
    expected = 1 if n_rows and value is not None else 0
    assert run(Aggregate(named, (), aggs), table).to_pydict() == {"x": [expected], "y": [expected]}
