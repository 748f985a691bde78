"""The phases of a sort: samples, places, and the rows of each range sorted alone."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from fabric.errors import InternalError
from fabric.operators.fragment import execute_fragment
from fabric.operators.fragment.sort import SAMPLE
from fabric.plan.expr import Call, Column, Literal, SortKey
from fabric.plan.nodes import Limit, Sort, StageInput
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
