"""Explode in a fragment and in a chain: the same rows as a definition in Python."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.operators.chain import build_chain
from fabric.operators.fragment import execute_fragment
from fabric.plan.expr import Agg, Alias, Call, Column, Literal
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Select,
    StageInput,
    WithColumns,
)
from fabric.plan.schema import schema_of

LISTS = st.lists(st.none() | st.lists(st.none() | st.integers(0, 9), max_size=4), max_size=9)


def exploded(lists: list[Any], *, outer: bool) -> list[tuple[Any, ...]]:
    """(row, element, position), by the book."""
    rows: list[tuple[Any, ...]] = []
    for index, values in enumerate(lists):
        rows += [(index, value, place) for place, value in enumerate(values or ())]
        if outer and not values:
            rows.append((index, None, None))
    return rows


def in_fragment(node: Explode, table: pa.Table, threads: int = 1) -> pa.Table:
    inputs = {0: table.to_batches(max_chunksize=4)}
    batches = list(execute_fragment(node, inputs, {}, target_partitions=threads, batch_rows=8))
    return pa.Table.from_batches(batches, schema_of(node))


def in_chain(node: Explode, table: pa.Table, threads: int = 1) -> pa.Table:
    chain = build_chain(node)
    batches = [
        out for batch in table.to_batches(max_chunksize=4) for out in chain.on_batch(0, batch)
    ]
    return pa.Table.from_batches(batches, schema_of(node))


WAYS = [in_fragment, in_chain]


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*table.to_pydict().values(), strict=True))


@settings(max_examples=50, deadline=None)
@given(lists=LISTS, outer=st.booleans(), threads=st.integers(1, 2), drop=st.integers(0, 2))
def test_each_element_is_a_row(lists: list[Any], outer: bool, threads: int, drop: int) -> None:
    table = pa.table({
        "i": pa.array(range(len(lists)), pa.int64()), "xs": pa.array(lists, pa.list_(pa.int16())),
    })  # fmt: skip
    table = table.slice(drop)  # offsets do not begin at 0
    expected = [row for row in exploded(lists, outer=outer) if row[0] >= drop]
    for way in WAYS:
        node = Explode(StageInput(0, table.schema), "xs", outer, "place")
        found = way(node, table, threads)
        assert found.schema.types == [pa.int64(), pa.int16(), pa.int32()]
        assert sorted(rows(found), key=repr) == sorted(expected, key=repr)
        bare = way(Explode(StageInput(0, table.schema), "xs", outer), table, threads)
        assert sorted(rows(bare), key=repr) == sorted((r[:2] for r in expected), key=repr)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize(
    "dtype",
    [
        pa.list_(pa.int8()), pa.large_list(pa.int8()), pa.list_view(pa.int8()),
        pa.large_list_view(pa.int8()), pa.list_(pa.int8(), 2),
    ],
    ids=str,
)  # fmt: skip
def test_lists_of_any_layout(way: Any, outer: bool, dtype: pa.DataType) -> None:
    lists = [[9, 9], [1, None], None, [3, 4]]
    table = pa.table({"xs": pa.array(lists, dtype), "i": range(4)}).slice(1)
    found = way(Explode(StageInput(0, table.schema), "xs", outer, "n"), table)
    expected = [(1, 1, 0), (None, 1, 1), (3, 3, 0), (4, 3, 1)]
    if outer:
        expected.insert(2, (None, 2, None))
    assert rows(found) == expected


@pytest.mark.parametrize("way", WAYS)
def test_a_null_list_over_values_has_no_elements(way: Any) -> None:
    lists = pa.ListArray.from_arrays(
        pa.array([0, 2, 4], pa.int32()), pa.array([1, 2, 3, 4]), mask=pa.array([True, False])
    )
    table = pa.table({"xs": lists})
    for outer in (False, True):
        found = way(Explode(StageInput(0, table.schema), "xs", outer), table)
        assert found["xs"].to_pylist() == ([None, 3, 4] if outer else [3, 4])


@pytest.mark.parametrize("way", WAYS)
def test_elements_may_be_nested_and_names_anything(way: Any) -> None:
    inner = pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))])
    values = [[{"a": 1, "b": None}, None], None, [], [{"a": None, "b": ["q", None]}]]
    table = pa.table({'x "s"': pa.array(values, pa.list_(inner)), "c0": ["k", "l", "m", "n"]})
    found = way(Explode(StageInput(0, table.schema), 'x "s"', True, "select"), table)
    assert found.schema.field(0).type == inner
    assert rows(found) == [
        ({"a": 1, "b": None}, "k", 0), (None, "k", 1), (None, "l", None), (None, "m", None),
        ({"a": None, "b": ["q", None]}, "n", 0),
    ]  # fmt: skip


def test_a_filter_above_sees_elements() -> None:
    table = pa.table({"xs": [[1, 2, 3], [], [4]], "i": [0, 1, 2]})
    more = Call("gt", (Column("xs"), Literal(2, pa.int64())))
    node = Filter(Explode(StageInput(0, table.schema), "xs"), more)
    assert rows(in_fragment(node, table)) == [(3, 0), (4, 2)]
    assert rows(in_chain(node, table)) == [(3, 0), (4, 2)]


def test_a_long_batch_comes_out_in_parts() -> None:
    table = pa.table({"xs": [list(range(30_000))] * 5 + [None], "i": range(6)})
    node = Explode(StageInput(0, table.schema), "xs", outer=True)
    chain = build_chain(node)
    batches = chain.on_batch(0, table.to_batches()[0])
    assert [batch.num_rows for batch in batches] == [60_000, 60_000, 30_001]


def test_keys_of_an_aggregate_below_are_not_unique_above() -> None:
    """DataFusion takes them for it, and would drop elements that nobody reads."""
    table = pa.table({"k": [1, 1, 2]})
    counted = Alias(Agg("count", None), "n")
    groups = Aggregate(StageInput(0, table.schema), (Column("k"),), (counted,))
    pair = Call("array", (Literal(-7, pa.int64()), Column("n")))
    elements = Explode(WithColumns(groups, (Alias(pair, "e"),)), "e")
    node = Select(Distinct(elements), (Column("k"),))
    assert sorted(rows(in_fragment(node, table))) == [(1,), (1,), (2,), (2,)]
