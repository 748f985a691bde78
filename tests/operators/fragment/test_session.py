"""Fragments with little memory: the same rows from streams, with sorts that spill and merges."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric.clients.demo.checksum import checksum
from fabric.errors import ConfigError, PartitionLostError
from fabric.operators.fragment import execute_fragment
from fabric.operators.fragment import run as fragment_run
from fabric.operators.fragment.session import FragmentMemory
from fabric.plan.expr import Agg, Alias, Column, SortKey
from fabric.plan.nodes import Aggregate, Join, Node, Sort, StageInput
from fabric.plan.schema import schema_of
from tests.support.wait import wait_until

K = (Column("k"),)


@dataclass
class Rows:
    """Batches that are read as streams, one a part."""

    batches: Sequence[pa.RecordBatch]

    @property
    def n_rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    @property
    def n_bytes(self) -> int:
        return sum(batch.nbytes for batch in self.batches)

    def parts(self) -> list[Callable[[], Iterator[pa.RecordBatch]]]:
        return [lambda batch=batch: iter([batch]) for batch in self.batches]  # type: ignore[misc]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.batches)


class Merging(FragmentMemory):
    """Takes every join for too large."""

    def merges_joins(self, root: Node, rows: Mapping[int, float]) -> bool:
        return True


def table(name: str, seed: int, n_rows: int, n_keys: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({
        "k": rng.integers(0, n_keys, n_rows),
        name: pa.array(rng.integers(0, 1 << 40, n_rows)),
    })  # fmt: skip


def run(
    node: Node, *tables: pa.Table, memory: FragmentMemory | None, streamed: bool, threads: int = 2
) -> pa.Table:
    parts = [[own(b) for b in t.to_batches(max_chunksize=10_000)] for t in tables]
    inputs = {i: Rows(part) if streamed else part for i, part in enumerate(parts)}
    batches = execute_fragment(node, inputs, {}, target_partitions=threads, memory=memory)
    return pa.Table.from_batches(list(batches), schema_of(node))


def own(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch alone: DataFusion counts what lies before a slice, too."""
    return batch.take(pa.array(range(batch.num_rows)))


def edge(number: int, rows: pa.Table) -> StageInput:
    return StageInput(number, rows.schema)


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    how=st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]),
    rows=st.tuples(st.integers(0, 3000), st.integers(0, 3000)),
    streamed=st.booleans(),
    threads=st.integers(1, 2),
)
def test_joins_are_the_same_merged(
    tmp_path: Path, how: str, rows: tuple[int, int], streamed: bool, threads: int
) -> None:
    left, right = table("v", 1, rows[0], 700), table("w", 2, rows[1], 700)
    node = Join(edge(0, left), edge(1, right), K, K, how)  # type: ignore[arg-type]
    memory = Merging(64 << 20, (tmp_path,))
    found = run(node, left, right, memory=memory, streamed=streamed, threads=threads)
    expected = run(node, left, right, memory=None, streamed=False, threads=threads)
    assert checksum(found) == checksum(expected)


def test_a_sort_and_an_aggregate_larger_than_the_pool(tmp_path: Path) -> None:
    rows = table("v", 3, 6_000_000, 3_000_000)
    memory = FragmentMemory(64 << 20, (tmp_path,))
    sort = Sort(edge(0, rows), (SortKey(Column("k")), SortKey(Column("v"))))
    found = run(sort, rows, memory=memory, streamed=True)
    assert found == rows.sort_by([("k", "ascending"), ("v", "ascending")])
    total = Alias(Agg("sum", Column("v")), "v")
    grouped = Aggregate(edge(0, rows), K, (total,))
    sums = run(grouped, rows, memory=memory, streamed=True)
    expected = rows.group_by("k").aggregate([("v", "sum")]).rename_columns(["k", "v"])
    assert checksum(sums) == checksum(expected.cast(sums.schema))
    wait_until(lambda: not list(tmp_path.iterdir()))


def test_nothing_is_kept_by_what_datafusion_drops_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its threads drop the futures of batches some time, which is at the next call at the latest.

    No garbage collection sees that: they are held by no object of Python.
    """
    futures = []

    class Loop(fragment_run._Loop):
        def create_future(self) -> asyncio.Future[Any]:
            futures.append(super().create_future())
            return futures[-1]

    monkeypatch.setattr(fragment_run, "_Loop", Loop)
    rows = table("v", 3, 200_000, 100_000)
    sort = Sort(edge(0, rows), (SortKey(Column("v")),))
    run(sort, rows, memory=FragmentMemory(64 << 20, (tmp_path,)), streamed=True)
    wait_until(lambda: not list(tmp_path.iterdir()))
    assert isinstance(futures[-1].exception(), StopAsyncIteration)


def test_a_join_larger_than_the_pool_is_merged(tmp_path: Path) -> None:
    left, right = table("v", 4, 3_000_000, 1 << 40), table("w", 5, 3_000_000, 1 << 40)
    keys = pa.array(np.random.default_rng(6).permutation(3_000_000))
    left, right = left.set_column(0, "k", keys), right.set_column(0, "k", keys)
    memory = FragmentMemory(64 << 20, (tmp_path,))
    node = Join(edge(0, left), edge(1, right), K, K, "inner")
    found = run(node, left, right, memory=memory, streamed=True)
    assert found.num_rows == 3_000_000


def test_too_little_memory_says_what_to_do(tmp_path: Path) -> None:
    rows = table("v", 3, 200_000, 100_000)
    sort = Sort(edge(0, rows), (SortKey(Column("v")),))
    with pytest.raises(ConfigError, match="give agents a larger --memory"):
        run(sort, rows, memory=FragmentMemory(1000, (tmp_path,)), streamed=True)


def test_what_a_stream_raises_is_what_the_fragment_raises() -> None:
    def lost() -> Iterator[pa.RecordBatch]:
        raise PartitionLostError("partition 1 is cut off", task="3#0")
        yield

    rows = table("v", 3, 10, 5)
    broken = Rows(rows.to_batches())
    broken.parts = lambda: [lost]  # type: ignore[method-assign]
    node = Sort(edge(0, rows), (SortKey(Column("v")),))
    with pytest.raises(PartitionLostError, match="cut off") as error:
        list(execute_fragment(node, {0: broken}, {}))
    assert error.value.where.task == "3#0"
