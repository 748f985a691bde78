"""Aggregates of many groups: the same rows in pieces as in one go."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fabric.errors import ExpressionError
from fabric.operators.fragment import execute_fragment, pieces
from fabric.plan.expr import Agg, Alias, Call, Column, Literal
from fabric.plan.nodes import Aggregate, Filter, Join, Limit, Node, StageInput
from fabric.plan.schema import schema_of

N_ROWS, N_GROUPS = 30_000, 6_000


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "ROWS_MIN", 6_000)
    monkeypatch.setattr(pieces, "GROUPS_MIN", 5_000)
    monkeypatch.setattr(pieces, "_PIECE_GROUPS", 1_000)
    monkeypatch.setattr(pieces, "_SLICE_ROWS", 64)


@pytest.fixture
def dealt(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pieces each aggregate was computed in."""
    numbers: list[int] = []
    aggregated = pieces.Pieces.aggregated

    def counted(
        self: pieces.Pieces, node: Aggregate, source: object, n: int, *rest: object
    ) -> object:
        numbers.append(n)
        return aggregated(self, node, source, n, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(pieces.Pieces, "aggregated", counted)
    return numbers


def table(n_groups: int = N_GROUPS) -> pa.Table:
    rng = np.random.default_rng(seed=3)
    k = rng.integers(0, n_groups, N_ROWS)
    return pa.table({
        "k": k,
        "text": pc.binary_join_element_wise("key ", pa.array(k).cast(pa.string()), ""),
        "v": pa.array(rng.integers(-100, 100, N_ROWS), mask=rng.random(N_ROWS) < 0.1),
        "w": rng.random(N_ROWS),
    })  # fmt: skip


def run(root: Node, rows: pa.Table, threads: int) -> pa.Table:
    batches = execute_fragment(
        root, {0: rows.to_batches(1000)}, {}, target_partitions=threads, batch_rows=4096
    )
    return pa.Table.from_batches(list(batches), schema_of(root))


def sums(source: Node, *keys: str) -> Aggregate:
    aggs = [Agg("count", None), Agg("sum", Column("v")), Agg("mean", Column("w"))]
    named = tuple(Alias(agg, name) for agg, name in zip(aggs, "nvw", strict=True))
    return Aggregate(source, tuple(Column(key) for key in keys), named)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("keys", [("k",), ("text",), ("text", "k")])
def test_agrees_with_pyarrow(keys: tuple[str, ...], threads: int, dealt: list[int]) -> None:
    rows = table()
    found = run(sums(StageInput(0, rows.schema), *keys), rows, threads).sort_by(keys[0])
    expected = rows.group_by(list(keys)).aggregate([([], "count_all"), ("v", "sum"), ("w", "mean")])
    expected = expected.sort_by(keys[0])
    assert dealt == [8]
    assert found["n"].equals(expected["count_all"].cast(pa.int64()))
    assert found["v"].equals(expected["v_sum"])
    assert np.allclose(found["w"], expected["w_mean"])


def test_over_filters_and_below_others(dealt: list[int]) -> None:
    rows = table()
    some = Filter(StageInput(0, rows.schema), Call("ge", (Column("k"), Literal(100, pa.int64()))))
    root = Filter(sums(some, "k"), Call("gt", (Column("n"), Literal(5, pa.int64()))))
    found = run(root, rows, 2)
    expected = rows.filter(pc.field("k") >= 100).group_by("k").aggregate([([], "count_all")])
    expected = expected.filter(pc.field("count_all") > 5)
    assert dealt
    assert sorted(found["k"].to_pylist()) == sorted(expected["k"].to_pylist())


def test_two_phases(dealt: list[int]) -> None:
    rows = table()
    whole = sums(StageInput(0, rows.schema), "k")
    partial = Aggregate(whole.input, whole.keys, whole.aggs, "partial")
    states = run(partial, rows, 1)
    final = Aggregate(StageInput(0, states.schema), whole.keys, whole.aggs, "final")
    twice = pa.concat_tables([states, states])
    found = run(final, twice, 2).sort_by("k")
    assert len(dealt) == 2
    once = rows.group_by("k").aggregate([("v", "sum")]).sort_by("k")
    assert found["v"].equals(pc.multiply(once["v_sum"], 2))


def test_floats_are_keys_as_in_spark(dealt: list[int]) -> None:
    odd = np.frombuffer(np.array([0xFFF8000000000001], np.uint64).tobytes(), np.float64)[0]
    many = [float(i) for i in range(1, N_GROUPS)] * 2
    rows = pa.table({"k": [0.0, -0.0, math.nan, odd, *many]})
    root = Aggregate(StageInput(0, rows.schema), (Column("k"),), (Alias(Agg("count", None), "n"),))
    found = run(root, rows, 2)
    assert dealt
    assert set(found["n"].to_pylist()) == {2}
    assert found.num_rows == N_GROUPS + 1


def test_overflow_is_an_error(dealt: list[int]) -> None:
    rows = pa.table(
        {"k": [*[i // 3 for i in range(N_ROWS)], 7, 7], "v": [1] * N_ROWS + [1 << 62] * 2}
    )
    root = Aggregate(
        StageInput(0, rows.schema), (Column("k"),), (Alias(Agg("sum", Column("v")), "s"),)
    )
    with pytest.raises(ExpressionError, match="the sum 's' does not fit"):
        run(root, rows, 2)
    assert dealt


def test_few_groups_stay_together(dealt: list[int]) -> None:
    rows = table(n_groups=100)
    assert run(sums(StageInput(0, rows.schema), "k"), rows, 2).num_rows == 100
    assert not dealt


def test_a_group_a_row_stays_together(dealt: list[int]) -> None:
    rows = table().append_column("row", pa.array(range(N_ROWS)))
    assert run(sums(StageInput(0, rows.schema), "row"), rows, 2).num_rows == N_ROWS
    assert not dealt


def test_parquet(tmp_path: Path, dealt: list[int]) -> None:
    import fabric

    rows = table()
    fabric.from_arrow(rows).write_parquet(str(tmp_path / "rows"))
    with fabric.connect() as session:  # of its own: others may have changed the usual one
        frame = session.read_parquet(str(tmp_path / "rows" / "*.parquet"))
        groups = frame.group_by("k").agg(n=fabric.count()).collect()
    assert groups.num_rows == len(pc.unique(rows["k"]))
    assert dealt == [8]


def test_not_over_what_blocks_or_without_keys_or_nested() -> None:
    rows = table()
    leaf = StageInput(0, rows.schema)
    lists = StageInput(0, pa.schema([("k", pa.int64()), ("v", pa.list_(pa.int64()))]))
    key = (Column("k"),)
    assert pieces.is_fit(sums(leaf, "k"), 1e5)
    assert not pieces.is_fit(sums(leaf, "k"), 5_999)
    assert not pieces.is_fit(sums(leaf), 1e5)
    assert not pieces.is_fit(sums(Limit(leaf, 20_000), "k"), 1e5)
    assert not pieces.is_fit(sums(Join(leaf, leaf, key, key, "semi"), "k"), 1e5)
    assert not pieces.is_fit(
        Aggregate(lists, key, (Alias(Agg("any_value", Column("v")), "v"),)), 1e5
    )
