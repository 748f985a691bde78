from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric._cython.kernels.hash import hash_columns
from fabric.agent.router import RoundRobinRouter, make_router, partitions_of, producers_of
from fabric.control import control_pb2 as pb
from fabric.errors import InternalError

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def batch(n: int, start: int = 0) -> pa.RecordBatch:
    keys = pa.array([i % 7 for i in range(start, start + n)], pa.int64())
    return pa.record_batch([keys, pa.array(range(start, start + n), pa.int64())], schema=SCHEMA)


def routed(kind: pb.EdgeKind, n: int, task: int, *batches: pa.RecordBatch) -> list[list[int]]:
    """Values by partition."""
    router = make_router(pb.OutputEdge(kind=kind, n_partitions=n, keys=["k"]), SCHEMA, task)
    found: list[list[int]] = [[] for _ in range(n)]
    for rows in batches:
        out, offsets = router.route(rows)
        bounds = [(0, out.num_rows)] * n if offsets is None else list(pairwise(offsets))
        for p, (a, b) in enumerate(bounds):
            found[p] += out.column("v").to_pylist()[a:b]
    return found


def test_hash_goes_by_the_top_bits_of_the_hash() -> None:
    rows = batch(200)
    want = (hash_columns([rows.column("k")]) >> np.uint64(49)).astype(np.int64) * 5 >> 15
    found = routed(pb.EDGE_HASH, 5, 0, rows)
    assert found == [[v for v in range(200) if want[v] == p] for p in range(5)]


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), max_size=6), st.integers(1, 9), st.integers(0, 20))
def test_round_robin_goes_by_task_and_row_number(sizes: list[int], n: int, task: int) -> None:
    batches, start = [], 0
    for size in sizes:
        batches.append(batch(size, start))
        start += size
    found = routed(pb.EDGE_ROUND_ROBIN, n, task, *batches)
    assert found == [[r for r in range(start) if (task + r) % n == p] for p in range(n)]


def test_round_robin_takes_views() -> None:
    rows = pa.record_batch({"v": pa.array(["a", None, "b" * 20, "c"], pa.string_view())})
    out, offsets = RoundRobinRouter(0, 2).route(rows)
    assert out.column("v").to_pylist() == ["a", "b" * 20, None, "c"]
    assert offsets.tolist() == [0, 2, 4]


def test_one_to_all_one_and_own() -> None:
    rows = batch(3)
    assert routed(pb.EDGE_BROADCAST, 2, 0, rows, rows) == [[0, 1, 2] * 2] * 2
    assert routed(pb.EDGE_GATHER, 1, 4, rows) == [[0, 1, 2]]
    assert routed(pb.EDGE_GATHER, 2, 1, rows) == [[0, 1, 2], []]
    assert routed(pb.EDGE_FORWARD, 3, 1, rows) == [[], [0, 1, 2], []]


def test_an_empty_batch_is_routed() -> None:
    for kind in (pb.EDGE_HASH, pb.EDGE_ROUND_ROBIN, pb.EDGE_FORWARD, pb.EDGE_BROADCAST):
        assert routed(kind, 3, 0, batch(0)) == [[], [], []]
    rows, offsets = RoundRobinRouter(0, 2).route(batch(0))
    assert offsets.tolist() == [0, 0, 0]
    assert rows.num_rows == 0


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(InternalError, match="edge 9 has the unknown kind 0"):
        make_router(pb.OutputEdge(edge=9, n_partitions=2), SCHEMA, 0)


def test_who_reads_what() -> None:
    assert partitions_of(pb.EDGE_GATHER, 1, 1, 3) == []
    assert partitions_of(pb.EDGE_BROADCAST, 1, 2, 3) == [0]
    assert partitions_of(pb.EDGE_HASH, 3, 2, 3) == [2]
    producers = [pb.Producer(task=t) for t in range(4)]
    edge = pb.InputEdge(kind=pb.EDGE_FORWARD, n_partitions=4, producers=producers)
    assert [p.task for p in producers_of(edge, 2)] == [2]
    edge.kind = pb.EDGE_HASH
    assert len(producers_of(edge, 2)) == 4


@settings(deadline=None)
@given(st.lists(st.integers(0, 6), max_size=40))
def test_range_goes_by_the_number_in_a_column(numbers: list[int]) -> None:
    schema = pa.schema([("k", pa.int32()), ("v", pa.string())])
    values = [f"{i}" for i in range(len(numbers))]
    rows = pa.record_batch([pa.array(numbers, pa.int32()), pa.array(values)], schema=schema)
    edge = pb.OutputEdge(kind=pb.EDGE_RANGE, n_partitions=7, keys=["k"])
    out, offsets = make_router(edge, schema, 0).route(rows)
    assert offsets is not None
    found = [out.column("v").to_pylist()[a:b] for a, b in pairwise(offsets)]
    want = [[v for v, k in zip(values, numbers, strict=True) if k == p] for p in range(7)]
    assert found == want
