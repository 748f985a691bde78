"""Joins: against DuckDB for every kind, and where keys are null, NaN, zero or of two types."""

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.operators.fragment import execute_fragment
from fabric.plan.expr import Call, Column, Literal
from fabric.plan.nodes import Join, Select, StageInput
from fabric.plan.schema import schema_of

K = (Column("k"),)
QUERIES = {
    "inner": "select l.k, l.v, r.w from l join r on l.k = r.k",
    "left": "select l.k, l.v, r.w from l left join r on l.k = r.k",
    "semi": "select l.k, l.v from l where exists (select 1 from r where r.k = l.k)",
    "anti": "select l.k, l.v from l where not exists (select 1 from r where r.k = l.k)",
}
SIDE = st.lists(st.none() | st.integers(0, 4), max_size=12)


I32 = pa.int32()


def side(keys, name, dtype=I32):
    return pa.table({"k": pa.array(keys, dtype), name: pa.array(range(len(keys)), pa.int64())})


@settings(max_examples=40, deadline=None)
@given(left=SIDE, right=SIDE, how=st.sampled_from(sorted(QUERIES)), threads=st.integers(1, 2))
def test_agrees_with_duckdb(left, right, how, threads):
    import duckdb

    l_table, r_table = side(left, "v"), side(right, "w", pa.int64())
    node = Join(StageInput(0, l_table.schema), StageInput(1, r_table.schema), K, K, how)
    inputs = {0: l_table.to_batches(max_chunksize=2), 1: r_table.to_batches()}
    batches = list(execute_fragment(node, inputs, {}, target_partitions=threads, batch_rows=4))
    found = pa.Table.from_batches(batches, schema_of(node))
    with duckdb.connect() as database:
        database.register("l", l_table)
        database.register("r", r_table)
        expected = database.execute(QUERIES[how]).fetchall()
    got = zip(*found.to_pydict().values(), strict=True)
    assert sorted(got, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("dtype", [pa.float32(), pa.float64()])
def test_nan_keys_are_equal_and_so_are_zeros(run, edge, rows, dtype):
    left = side([math.nan, -0.0, None], "v", dtype)
    right = side([0.0, math.nan, None], "w", dtype)
    found = run(Join(edge(0, left), edge(1, right), K, K), left, right).select(["v", "w"])
    assert rows(found) == [(0, 1), (1, 0)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.int8(), pa.int64()), (pa.uint32(), pa.int32()), (pa.int32(), pa.float64()),
        (pa.string(), pa.large_string()), (pa.string(), pa.dictionary(pa.int32(), pa.string())),
        (pa.date32(), pa.timestamp("us")), (pa.int32(), pa.decimal128(12, 2)),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),
    ],
)  # fmt: skip
def test_keys_of_two_types_are_compared_as_their_common_type(run, edge, rows, one, other):
    def keys(dtype):
        values = pa.array([1, 2, None], pa.int32())
        if pa.types.is_dictionary(dtype):
            return values.cast(pa.string()).dictionary_encode()
        if pa.types.is_temporal(dtype):
            return values.cast(pa.date32()).cast(dtype)
        return (
            values.cast(pa.decimal128(12, 0)).cast(dtype) if dtype == other else values.cast(dtype)
        )

    left = pa.table({"k": keys(one), "v": [1, 2, 3]})
    right = pa.table({"k": keys(other), "w": [1, 2, 3]})
    found = run(Join(edge(0, left), edge(1, right), K, K), left, right).select(["v", "w"])
    assert rows(found) == [(1, 1), (2, 2)]


def test_columns_of_one_name_get_the_suffix_and_shared_keys_come_once(run, edge):
    left, right = side([1], "v"), side([1], "v")
    node = Join(edge(0, left), edge(1, right), K, K, suffix="_b")
    assert run(node, left, right).to_pydict() == {"k": [1], "v": [0], "v_b": [0]}


def test_keys_are_expressions_and_keys_of_other_names_stay(run, edge):
    left, right = side([1, 2], "v"), side([2, 4], "w").rename_columns(["id", "w"])
    doubled = (Call("multiply", (Column("k"), Literal(2, pa.int32()))),)
    found = run(Join(edge(0, left), edge(1, right), doubled, (Column("id"),)), left, right)
    assert found.sort_by("k").to_pydict() == {"k": [1, 2], "v": [0, 1], "id": [2, 4], "w": [0, 1]}


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_several_keys(run, edge, rows, ask, how):
    left = pa.table({"k": [1, 1, 2, None], "j": ["a", "b", "a", "a"], "v": [1, 2, 3, 4]})
    right = pa.table({"k": [1, 2, None], "j": ["a", "b", "a"], "w": [1, 2, 3]})
    on = (Column("k"), Column("j"))
    found = run(Join(edge(0, left), edge(1, right), on, on, how), left, right)
    query = QUERIES[how].replace("l.k, l.v", "l.k, l.j, l.v").replace("r.k", "r.k", 1)
    query = query.replace("l.k = r.k", "l.k = r.k and l.j = r.j")
    query = query.replace("r.k = l.k", "r.k = l.k and r.j = l.j")
    assert rows(found) == ask(query, l=left, r=right)


def test_a_node_joined_with_itself(run, edge, rows):
    table = side([1, 2, 2, None], "v")
    source = edge(0, table)
    found = run(Join(source, source, K, K, suffix="_2"), table)
    assert rows(found) == [(1, 0, 0), (2, 1, 1), (2, 1, 2), (2, 2, 1), (2, 2, 2)]
    thrice = Join(Join(source, source, K, K, "semi"), source, K, K, suffix="_2")
    assert run(thrice, table).num_rows == 5


def test_names_hold_anything(run, edge):
    names = ['a"b', "A b", "ä.ß", "c0"]
    left = pa.table([[1], [2], [3], [4]], names=names)
    right = pa.table([[1], [5]], names=['a"b', "select"])
    on = (Column('a"b'),)
    found = run(Join(edge(0, left), edge(1, right), on, on), left, right)
    assert found.to_pylist() == [dict(zip([*names, "select"], [1, 2, 3, 4, 5], strict=True))]
    swapped = Select(edge(0, left), tuple(Column(name) for name in reversed(names)))
    assert run(swapped, left).column_names == names[::-1]


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("sizes", [(20, 1), (1, 20)])
def test_either_side_may_be_the_smaller(run, edge, ask, how, sizes):
    n_left, n_right = sizes
    left, right = side(list(range(n_left)), "v"), side(list(range(n_right)), "w")
    found = run(Join(edge(0, left), edge(1, right), K, K, how), left, right)
    got = zip(*found.to_pydict().values(), strict=True)
    assert sorted(got, key=repr) == ask(QUERIES[how], l=left, r=right)
