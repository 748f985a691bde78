"""Joins: against DuckDB for every kind, and where keys are null, NaN, zero or of two types."""

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import ExpressionError
from fabric.operators.fragment import execute_fragment, join
from fabric.plan.expr import Alias, Call, Cast, Column, Literal
from fabric.plan.nodes import Filter, Join, Select, StageInput, WithColumns
from fabric.plan.schema import schema_of

K = (Column("k"),)
QUERIES = {
    "inner": "select l.k, l.v, r.w from l join r on l.k = r.k",
    "left": "select l.k, l.v, r.w from l left join r on l.k = r.k",
    "right": "select r.k, l.v, r.w from l right join r on l.k = r.k",
    "full": "select coalesce(l.k, r.k), l.v, r.w from l full join r on l.k = r.k",
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


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])  # the others: below
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


@pytest.mark.parametrize("how", sorted(QUERIES))
@pytest.mark.parametrize("sizes", [(20, 1), (1, 20)])
def test_either_side_may_be_the_smaller(run, edge, ask, how, sizes):
    n_left, n_right = sizes
    left, right = side(list(range(n_left)), "v"), side(list(range(n_right)), "w")
    found = run(Join(edge(0, left), edge(1, right), K, K, how), left, right)
    got = zip(*found.to_pydict().values(), strict=True)
    assert sorted(got, key=repr) == ask(QUERIES[how], l=left, r=right)


CONDITIONS = {
    "l.v < r.w": Call("lt", (Column("v"), Column("w"))),
    "l.v > 2 and l.v <> r.w": Call(
        "and",
        (
            Call("gt", (Column("v"), Literal(2, pa.int64()))),
            Call("ne", (Column("v"), Column("w"))),
        ),
    ),
    "r.w % 3 = 1": Call(
        "eq",
        (Call("modulo", (Column("w"), Literal(3, pa.int64()))), Literal(1, pa.int64())),
    ),
    "l.v > 1000": Call("gt", (Column("v"), Literal(1000, pa.int64()))),
    "null": Literal(None, pa.bool_()),
}
ON = {
    "inner": "select l.k, l.v, {k} r.w from l join r on {on}",
    "left": "select l.k, l.v, {k} r.w from l left join r on {on}",
    "right": "select {m}, l.v, {k} r.w from l right join r on {on}",
    "full": "select {c}, l.v, {k} r.w from l full join r on {on}",
    "semi": "select l.k, l.v from l where exists (select 1 from r where {on})",
    "anti": "select l.k, l.v from l where not exists (select 1 from r where {on})",
}


@settings(max_examples=60, deadline=None)
@given(
    sides=st.tuples(SIDE, SIDE),
    how=st.sampled_from(sorted(ON)),
    text=st.sampled_from(sorted(CONDITIONS)),
    keyed=st.booleans(),
    threads=st.integers(1, 2),
)
def test_conditions_agree_with_duckdb(sides, how, text, keyed, threads):
    import duckdb

    left, right = sides
    l_table, r_table = side(left, "v"), side(right, "w", pa.int64())
    keys = (K, K) if keyed else ((), ())
    edges = StageInput(0, l_table.schema), StageInput(1, r_table.schema)
    node = Join(*edges, *keys, how, condition=CONDITIONS[text])
    inputs = {0: l_table.to_batches(max_chunksize=2), 1: r_table.to_batches()}
    batches = list(execute_fragment(node, inputs, {}, target_partitions=threads, batch_rows=4))
    found = pa.Table.from_batches(batches, schema_of(node))
    own = "" if keyed else "r.k as k_right,"
    merged = ("r.k", "coalesce(l.k, r.k)") if keyed else ("l.k", "l.k")
    on = f"l.k = r.k and {text}" if keyed else text
    query = ON[how].format(k=own, m=merged[0], c=merged[1], on=on)
    with duckdb.connect() as database:
        database.register("l", l_table)
        database.register("r", r_table)
        expected = database.execute(query).fetchall()
    got = zip(*found.to_pydict().values(), strict=True)
    assert sorted(got, key=repr) == sorted(expected, key=repr)


def test_cross_joins_pair_all_rows(run, edge, rows):
    left, right = side([1, None], "v"), side([1, 2, 2], "w")
    node = Join(edge(0, left), edge(1, right), (), (), "cross")
    assert schema_of(node).names == ["k", "v", "k_right", "w"]
    expected = [(a, i, b, j) for i, a in enumerate([1, None]) for j, b in enumerate([1, 2, 2])]
    assert rows(run(node, left, right)) == sorted(expected, key=repr)
    assert run(node, left.slice(0, 0), right).num_rows == 0


@pytest.mark.parametrize("how", ["right", "full"])
def test_merged_keys_of_two_types(run, edge, rows, how):
    left, right = side([1, 2], "v", pa.int32()), side([2, 2**40, None], "w", pa.int64())
    node = Join(edge(0, left), edge(1, right), K, K, how)
    assert schema_of(node).field("k").type == pa.int64()
    expected = [(2, 1, 0), (2**40, None, 1), (None, None, 2)]
    if how == "full":
        expected.append((1, 0, None))
    assert rows(run(node, left, right)) == sorted(expected, key=repr)


def test_a_merged_key_without_a_name(run, edge, rows):
    left = side([1, 2], "v").rename_columns(["", "v"])
    right = side([2, 3], "w").rename_columns(["", "w"])
    node = Join(edge(0, left), edge(1, right), (Column(""),), (Column(""),), "full")
    assert rows(run(node, left, right)) == sorted([(1, 0, None), (2, 1, 0), (3, None, 1)], key=repr)


@pytest.mark.parametrize("how", ["right", "full"])
def test_nan_keys_of_outer_joins(run, edge, how):
    left = side([math.nan, 0.0, None], "v", pa.float64())
    right = side([-0.0, -math.nan, None], "w", pa.float64())
    found = run(Join(edge(0, left), edge(1, right), K, K, how), left, right)
    pairs = set(zip(found["v"].to_pylist(), found["w"].to_pylist(), strict=True))
    assert pairs == {(0, 1), (1, 0), (None, 2)} | ({(2, None)} if how == "full" else set())


def _over(name):
    """1 / `name` > 0, which raises where it is 0."""
    return Call(
        "gt", (Call("divide", (Literal(1, pa.int64()), Column(name))), Literal(0.0, pa.float64()))
    )


@pytest.mark.parametrize("how", sorted(ON))
@pytest.mark.parametrize("read", ["v", "w"])
@pytest.mark.parametrize("sizes", [(3, 9), (9, 3)])
def test_a_condition_is_not_asked_of_rows_that_do_not_meet(run, edge, how, read, sizes):
    """Row 0 of each side has a zero and no partner."""
    left, right = (
        pa.table({"k": [100 * place, *range(1, n)], name: list(range(n))})
        for n, name, place in zip(sizes, "vw", (1, 2), strict=True)
    )
    node = Join(edge(0, left), edge(1, right), K, K, how, condition=_over(read))
    n_pairs = min(sizes) - 1
    unmatched = {"inner": 0, "left": sizes[0], "right": sizes[1], "full": sum(sizes), "semi": 0}
    expected = n_pairs
    if how == "anti":
        expected = sizes[0] - n_pairs
    elif how in ("left", "right"):
        expected = unmatched[how]
    elif how == "full":
        expected = unmatched[how] - n_pairs
    assert run(node, left, right).num_rows == expected
    meeting = left.set_column(0, "k", pa.array([200, *range(1, sizes[0])]))
    with pytest.raises(ExpressionError, match="division by zero"):
        run(node, meeting, right)


def test_terms_before_protect_those_after(run, edge):
    left, right = side([1, 1], "v"), side([1], "w")
    guard = Call("ne", (Column("v"), Literal(0, pa.int64())))
    node = Join(edge(0, left), edge(1, right), K, K, condition=Call("and", (guard, _over("v"))))
    assert run(node, left, right)["v"].to_pylist() == [1]


def test_what_a_filter_below_protects_is_not_computed_by_the_condition(run, edge):
    left, right = side([1, 1], "v"), side([1], "w")
    kept = Filter(edge(0, left), Call("ne", (Column("v"), Literal(0, pa.int64()))))
    shares = WithColumns(kept, (Alias(Call("divide", (Literal(6, pa.int64()), Column("v"))), "s"),))
    more = Call("gt", (Column("s"), Literal(1.0, pa.float64())))
    for how in ("inner", "left", "semi"):
        node = Join(shares, edge(1, right), K, K, how, condition=more)
        assert run(node, left, right)["v"].to_pylist() == [1]


def test_conditions_read_columns_under_their_output_names(run, edge, rows):
    left, right = side([1, 2, 3], "v"), side([1, 2, 3], "v")
    less = Call("lt", (Column("v_right"), Literal(2, pa.int64())))
    for how, expected in [("inner", 2), ("semi", 2), ("anti", 1), ("full", 4)]:
        node = Join(edge(0, left), edge(1, right), K, K, how, condition=less)
        assert run(node, left, right).num_rows == expected


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize(
    "dtype",
    [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int16(), pa.string())],
    ids=str,
)
def test_strings_of_large_build_sides_are_gathered_as_views(run, ask, monkeypatch, how, dtype):
    monkeypatch.setattr(join, "_VIEWED_ROWS_MIN", 2)
    texts = ["a", None, "", "b" * 40, "c" * 12, "d" * 13]
    plain = [
        pa.table({"k": [0, 1, 2, 3, 4, 5], "v": texts}),
        pa.table({"k": [1, 3, 5, 5, 9], "w": texts[1:]}),
    ]
    left, right = (t.set_column(1, t.column_names[1], t.column(1).cast(dtype)) for t in plain)
    differ = Call("ne", (Column("v"), Column("w"))) if how != "left" else None
    node = Join(
        StageInput(0, left.schema), StageInput(1, right.schema), K, K, how, condition=differ
    )
    found = run(node, left, right)
    got = pa.table([found["k"], *(found[name].cast(pa.string()) for name in "vw")], ["k", "v", "w"])
    query = QUERIES[how] + (" and l.v <> r.w" if differ else "")
    expected = ask(query, l=plain[0], r=plain[1])
    assert sorted(zip(*got.to_pydict().values(), strict=True), key=repr) == expected


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_half_joins_build_on_the_smaller_side(run, edge, rows, how):
    left, right = side([1, 2, 2, None, 5] * 4, "v"), side([2, 2, None], "w", pa.int64())
    doubled = (Cast(Column("k"), pa.int64()),)
    node = Join(edge(0, left), edge(1, right), doubled, K, how)
    kept = [(k, v) for v, k in enumerate([1, 2, 2, None, 5] * 4) if (k == 2) == (how == "semi")]
    assert rows(run(node, left, right)) == sorted(kept, key=repr)


def test_a_key_may_be_used_twice(run, edge, rows):
    left, right = side([1, 2], "v"), pa.table({"a": [1, 2], "b": [1, 1]})
    node = Join(
        edge(0, left), edge(1, right), (Column("k"), Column("k")), (Column("a"), Column("b"))
    )
    assert rows(run(node, left, right)) == [(1, 0, 1, 1)]


@pytest.mark.parametrize("how", ["left", "semi", "anti"])
def test_a_condition_that_can_raise_reads_one_side_of_which_only_the_key_is_left(run, edge, how):
    left, right = side([1, 2, 3], "v"), side([1, 2, 9], "w").select(["k"])
    quotient = Call("divide", (Literal(6, I32), Column("v")))  # v is 0 where k is 1
    above = Call("gt", (quotient, Literal(3.0, pa.float64())))
    node = Join(edge(0, left), edge(1, right), (Column("k"),), (Column("k"),), how, condition=above)
    with pytest.raises(ExpressionError):
        run(node, left, right)
    found = run(node, left.slice(1), right)
    assert sorted(found["k"].to_pylist()) == {"left": [2, 3], "semi": [2], "anti": [3]}[how]
