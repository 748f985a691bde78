"""Filters on a row's number: the same rows, whether rows went before or not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.operators.fragment import execute_fragment
from fabric.operators.fragment.windows import pruned
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
    return pa.Table.from_batches(batches, schema_of(node)).sort_by("i")


def at_most(n: int) -> Call:
    return Call("le", (N, Literal(n, pa.int32())))


@pytest.fixture
def prunes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows let through, a number for each time; also of small tables."""
    calls: list[int] = []
    real = pruned._may_be_first

    def counted(codes: Any, keys: Any, n: int) -> Any:
        mask = real(codes, keys, n)
        calls.append(int(mask.sum()))
        return mask

    monkeypatch.setattr(pruned, "ROWS_MIN", 0)
    monkeypatch.setattr("fabric.operators.fragment.lower.ROWS_MIN", 0)
    monkeypatch.setattr(pruned, "_may_be_first", counted)
    return calls


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
        patch.setattr(pruned, "ROWS_MIN", 0)
        patch.setattr("fabric.operators.fragment.lower.ROWS_MIN", 0)
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


def test_small_groups_are_left_alone(prunes: list[int]) -> None:
    assert kept(table_of(100, 70), {"n": over("row_number", "p")}, at_most(1)).num_rows <= 70
    assert prunes == [100]


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
