"""Filters on a row's number: the same rows, whether rows went before or not."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.operators.fragment import execute_fragment
from fabric.operators.fragment.over import first_rows
from fabric.plan.expr import Agg, Alias, Call, Column, Expr, Literal, Over, SortKey
from fabric.plan.nodes import Filter, StageInput, Window
from fabric.plan.schema import schema_of

N = Column("n")


def kept(table: pa.Table, overs: dict[str, Over], predicate: Expr) -> pa.Table:
    source = StageInput(0, table.schema)
    window = Window(source, tuple(Alias(over, name) for name, over in overs.items()))
    node = Filter(window, predicate)
    inputs = {0: table.to_batches(max_chunksize=7)}
    batches = list(execute_fragment(node, inputs, {}, target_partitions=2, batch_rows=16))
    found = pa.Table.from_batches(batches, schema_of(node))
    return found.select(["i", "o", "n"]).sort_by("i")


def at_most(n: int) -> Call:
    return Call("le", (N, Literal(n, pa.int32())))


@pytest.fixture
def prunes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows let through, a number for each time; also of small tables."""
    calls: list[int] = []

    def counted(*args: Any, **options: Any) -> Any:
        relation = first_rows.pruned(*args, **options)
        calls.append(relation.df.count())
        return relation

    always(monkeypatch)
    monkeypatch.setattr("fabric.operators.fragment.over.over.pruned", counted)
    return calls


def always(patch: pytest.MonkeyPatch) -> None:
    """Small tables too, and whatever the groups seem to be."""
    patch.setattr(first_rows, "ROWS_MIN", 0)
    patch.setattr("fabric.operators.fragment.lower.ROWS_MIN", 0)
    patch.setattr(first_rows, "estimated_groups", lambda *_: 0.0)


ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b"]),
        st.none() | st.sampled_from([0.0, -0.0, 1.5, -2.0, math.nan, math.inf]),
    ),
    max_size=150,
)


@settings(max_examples=60, deadline=None)
@given(
    rows=ROWS,
    n=st.integers(1, 3),
    function=st.sampled_from(["row_number", "rank"]),
    descending=st.booleans(),
    nulls_last=st.booleans(),
)
def test_the_same_rows_with_and_without(
    rows: Any, n: int, function: str, descending: bool, nulls_last: bool
) -> None:
    p, o = zip(*rows, strict=True) if rows else ((), ())
    table = pa.table({
        "i": pa.array(range(len(rows)), pa.int64()), "p": pa.array(p, pa.string()),
        "o": pa.array(o, pa.float64()),
    })  # fmt: skip
    order = [SortKey(Column("o"), descending, nulls_last)]
    if function == "row_number":
        order.append(SortKey(Column("i")))
    over = Over(Agg(function, None), (Column("p"),), tuple(order))
    whole = kept(table, {"n": over}, at_most(n))
    with pytest.MonkeyPatch.context() as patch:
        always(patch)
        found = kept(table, {"n": over}, at_most(n))
    assert repr(found.to_pylist()) == repr(whole.to_pylist())


def table_of(n_rows: int, n_groups: int) -> pa.Table:
    rng = np.random.default_rng(7)
    return pa.table({
        "i": range(n_rows), "p": rng.integers(0, n_groups, n_rows), "q": [1] * n_rows,
        "o": rng.integers(0, 1000, n_rows),
    })  # fmt: skip


def over(function: str = "row_number", *partition: str) -> Over:
    order = (SortKey(Column("o"), descending=True), SortKey(Column("i")))
    return Over(Agg(function, None), tuple(map(Column, partition)), order)


def test_most_rows_go(prunes: list[int]) -> None:
    table = table_of(2000, 4)
    for partition in (("p",), ("p", "q"), ()):
        found = kept(table, {"n": over("row_number", *partition)}, at_most(2))
        assert found.num_rows == (8 if partition else 2)
    assert len(prunes) == 3
    assert max(prunes) < 60


def test_small_groups_are_left_alone(prunes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_rows, "estimated_groups", lambda *_: 70.0)
    found = kept(table_of(400, 70), {"n": over("row_number", "p")}, at_most(3))
    assert found.num_rows <= 210
    assert prunes[0] > 300


KEYS = st.sampled_from([None, 1, 2])
TYPES = [
    pa.int8(), pa.uint64(), pa.bool_(), pa.float16(), pa.float64(), pa.string(),
    pa.large_string(), pa.string_view(), pa.binary(), pa.binary(1), pa.date32(), pa.time32("s"),
    pa.timestamp("ns", "UTC"), pa.duration("us"), pa.decimal32(5, 1), pa.decimal128(30, 2),
    pa.decimal256(60, 0), pa.dictionary(pa.int8(), pa.string()),
    pa.run_end_encoded(pa.int32(), pa.int64()),
]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(KEYS, KEYS, st.none() | st.integers(-9, 9)), max_size=80),
    types=st.tuples(st.sampled_from(TYPES), st.sampled_from(TYPES)),
    n=st.integers(1, 2),
)
def test_partitions_of_all_types(
    rows: list[tuple[int | None, ...]], types: tuple[pa.DataType, ...], n: int
) -> None:
    p, q, o = (pa.array([row[i] for row in rows], pa.int8()) for i in range(3))
    table = pa.table({
        "i": pa.array(range(len(rows)), pa.int64()), "p": as_type(p, types[0]),
        "q": as_type(q, types[1]), "o": o,
    })  # fmt: skip
    wanted = {"n": over("row_number", "p", "q")}
    whole = kept(table, wanted, at_most(n))
    with pytest.MonkeyPatch.context() as patch:
        always(patch)
        assert kept(table, wanted, at_most(n)).equals(whole)


def as_type(values: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Small integers as another type."""
    found = values.to_pylist()
    if pa.types.is_run_end_encoded(dtype):
        return pc.run_end_encode(values.cast(dtype.value_type), dtype.run_end_type)
    if pa.types.is_decimal(dtype):
        return pa.array([None if v is None else Decimal(v) for v in found], dtype)
    if pa.types.is_floating(dtype) or pa.types.is_integer(dtype):
        return values.cast(dtype)
    if pa.types.is_temporal(dtype):
        width = pa.int32() if dtype.bit_width == 32 else pa.int64()
        return values.cast(width).view(dtype)
    if pa.types.is_boolean(dtype):
        return pa.array([None if v is None else v == 1 for v in found], dtype)
    if pa.types.is_binary(dtype) or pa.types.is_fixed_size_binary(dtype):
        return pa.array([None if v is None else f"{v}".encode() for v in found], dtype)
    texts = pa.array([None if v is None else f"{v}" for v in found], pa.string())
    return texts.dictionary_encode() if pa.types.is_dictionary(dtype) else texts.cast(dtype)


def test_rows_that_a_filter_below_took_away_count_for_nothing() -> None:
    table = table_of(3000, 3)
    source = Filter(
        StageInput(0, table.schema), Call("lt", (Column("o"), Literal(900, pa.int64())))
    )
    window = Window(source, (Alias(over("row_number", "p"), "n"),))
    node = Filter(window, at_most(2))
    found = []
    for patched in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if patched:
                always(patch)
            batches = list(execute_fragment(node, {0: table.to_batches()}, {}, batch_rows=64))
        found.append(pa.Table.from_batches(batches, schema_of(node)).sort_by("i"))
    assert found[0].num_rows == 6
    assert found[0].equals(found[1])


def test_two_threads_over_many_rows(prunes: list[int]) -> None:
    table = table_of(60_000, 100)
    wanted = {"n": over("row_number", "p")}
    node = Filter(Window(StageInput(0, table.schema), (Alias(wanted["n"], "n"),)), at_most(3))
    batches = execute_fragment(
        node, {0: table.to_batches()}, {}, target_partitions=2, batch_rows=512
    )
    found = pa.Table.from_batches(list(batches), schema_of(node)).sort_by("i")
    ordered = table.sort_by([("o", "descending"), ("i", "ascending")])
    seen: Counter[int] = Counter()
    best = []
    for row in ordered.to_pylist():
        seen[row["p"]] += 1
        if seen[row["p"]] <= 3:
            best.append(row["i"])
    assert found["i"].to_pylist() == sorted(best)
    assert prunes[0] < 1500


@pytest.mark.parametrize("function", ["sum", "lead", "dense_rank"])
def test_functions_that_see_later_rows_keep_them(prunes: list[int], function: str) -> None:
    table = table_of(500, 2)
    agg = Agg(function, None if function == "dense_rank" else Column("o"))
    other = Over(agg, (), (SortKey(Column("o"), descending=True), SortKey(Column("i"))))
    found = kept(table, {"n": over(), "s": other}, at_most(3))
    assert found.num_rows == 3
    assert bool(prunes) == (function == "dense_rank")
    if function == "dense_rank":
        only = {"n": Over(agg, other.partition_by, other.order_by)}
        assert kept(table, only, at_most(3)).num_rows == 3
        assert len(prunes) == 1
