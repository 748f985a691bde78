"""The phases of a sort: samples, places, and the rows of each range sorted alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from fabric.errors import InternalError
from fabric.operators.fragment import execute_fragment, sort
from fabric.operators.fragment.sort import SAMPLE
from fabric.plan.expr import Call, Column, Literal, SortKey
from fabric.plan.nodes import Filter, Limit, Select, Sort, StageInput
from fabric.plan.schema import schema_of

Run = Callable[..., pa.Table]
A, S = Column("a"), Column("s")
KEYS = (SortKey(Call("negate", (A,)), nulls_last=True), SortKey(S, descending=True))


def test_a_sample_has_the_keys_of_some_rows_and_their_weight(run: Run) -> None:
    table = pa.table({"a": range(3 * SAMPLE), "s": ["x"] * (3 * SAMPLE)})
    found = run(Sort(StageInput(0, table.schema), KEYS, "sample"), table, crumb=1000)
    assert found.column_names == ["0", "1", "rows"]
    assert found.num_rows == SAMPLE
    assert set(found["rows"].to_pylist()) == {3}
    assert sorted(found["0"].to_pylist(), reverse=True)[:2] == [-1, -4]
    few = run(Sort(StageInput(0, table.schema), KEYS, "sample"), table.slice(0, 2))
    assert few.to_pydict() == {"0": [0, -1], "1": ["x", "x"], "rows": [1, 1]}


def test_ranges_sorted_one_by_one_are_the_whole_in_order(run: Run) -> None:
    a = [i * 7 % 50 if i % 9 else None for i in range(200)]
    table = pa.table({"a": a, "s": [f"{i % 3}" for i in range(200)], "__range": [1] * 200})
    source = StageInput(0, table.schema)
    sample = Sort(source, KEYS, "sample")
    samples = run(sample, table)
    place = Sort(source, KEYS, "place", StageInput(1, schema_of(sample)), 4)
    placed = run(place, table, samples)
    assert placed.column_names == ["a", "s", "__range", "__range_"]
    pieces = []
    for number in range(4):
        piece = placed.filter(pa.compute.equal(placed["__range_"], number)).drop_columns("__range_")
        assert piece.num_rows > 20
        pieces.append(run(Sort(source, KEYS), piece.combine_chunks()))
    whole = run(Sort(source, KEYS), table)
    assert pa.concat_tables(pieces).equals(whole)


def test_no_rows(run: Run) -> None:
    table = pa.table({"a": pa.array([], pa.int64()), "s": pa.array([], pa.string())})
    source = StageInput(0, table.schema)
    sample = Sort(source, KEYS, "sample")
    assert run(sample, table).num_rows == 0
    some = pa.table({"a": [1], "s": ["x"]})
    place = Sort(source, KEYS, "place", StageInput(1, schema_of(sample)), 4)
    assert run(place, some, run(sample, table))["__range"].to_pylist() == [0]


def test_only_rows_that_arrived_are_sampled() -> None:
    source = StageInput(0, pa.schema([("a", pa.int64()), ("s", pa.string())]))
    sample = Sort(Limit(source, 1), (SortKey(Literal(1, pa.int32())),), "sample")
    with pytest.raises(InternalError, match="only rows that have arrived"):
        list(execute_fragment(sample, {0: []}, {}))


def oracle(table: pa.Table, *order: tuple[str, bool, bool]) -> pa.Table:
    """By Arrow, keys last to first, each a stable sort; keys are (name, descending, nulls last)."""
    for name, descending, nulls_last in reversed(order):
        places = pa.compute.sort_indices(
            table.append_column("row", pa.array(range(len(table)))),
            [(name, "descending" if descending else "ascending",
              "at_end" if nulls_last else "at_start"), ("row", "ascending", "at_end")],
        )  # fmt: skip
        table = table.take(places)
    return table


TYPES: dict[str, pa.DataType] = {
    "text": pa.string(), "raw": pa.large_binary(), "price": pa.decimal128(12, 2),
    "fixed": pa.binary(4),
}  # fmt: skip


@pytest.mark.parametrize("crumb", [1000, 100_000])
def test_many_rows_by_numbers_are_put_in_order_here(run: Run, crumb: int) -> None:
    """Any columns come along; on one thread equal rows keep their order."""
    rng, n = np.random.default_rng(seed=3), 3 * 65_536 + 5
    mask = rng.random(n) < 0.1
    words = [f"{i:04}" for i in rng.integers(0, 9999, n)]
    table = pa.table({
        "a": pa.array(rng.integers(0, 50, n), mask=mask),
        "b": pa.array(rng.integers(-(2**62), 2**62, n) << (rng.integers(0, 2, n))),
        "d": pa.array(rng.integers(0, 9000, n).astype(np.int32), pa.date32()),
        **{name: pa.array(words, pa.string()).cast(dtype) if name != "raw"
           else pa.array([w.encode() for w in words], dtype, mask=mask)
           for name, dtype in TYPES.items() if name not in ("fixed",)},
        "fixed": pa.array([w.encode() for w in words], pa.binary(4)),
    })  # fmt: skip
    source = StageInput(0, table.schema)
    keys = (SortKey(A, nulls_last=True), SortKey(Column("d"), descending=True))
    with_views = table.append_column("view", table["text"].cast(pa.string_view()))
    views = Sort(StageInput(0, with_views.schema), keys)
    found = run(views, with_views, threads=1, crumb=crumb)
    assert found["view"].cast(pa.string()).equals(found["text"])
    found = found.drop_columns("view")
    assert found.equals(oracle(table, ("a", False, True), ("d", True, True)))
    by_b = run(
        Sort(source, (SortKey(Column("b"), descending=True),)), table, threads=1, crumb=crumb
    )
    assert by_b.equals(oracle(table, ("b", True, False)))
    exact = (SortKey(A), SortKey(Column("b")))
    above = Select(Sort(Filter(source, Call("is_not_null", (A,))), exact), (A, Column("text")))
    kept = oracle(table.filter(table["a"].is_valid()), ("a", False, False), ("b", False, False))
    assert run(above, table, threads=1, crumb=crumb).equals(kept.select(["a", "text"]))


@pytest.mark.parametrize("width", [100, 5000])
def test_longer_texts_than_thought_are_sorted_too(
    run: Run, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is too large when it has come goes to DataFusion."""
    monkeypatch.setattr(sort, "_BYTES_MAX", 4 << 20)
    n = 70_000
    table = pa.table({"a": range(n, 0, -1), "s": ["x" * (width // 10)] * n})
    found = run(Sort(StageInput(0, table.schema), (SortKey(A),)), table, crumb=1000)
    assert found["a"].to_pylist() == list(range(1, n + 1))


def test_first_rows_of_many_are_found_without_sorting_all(run: Run) -> None:
    table = pa.table({"a": range(200_000, 0, -1)})
    top = Limit(Sort(StageInput(0, table.schema), (SortKey(A),)), 2)
    assert run(top, table)["a"].to_pylist() == [1, 2]
