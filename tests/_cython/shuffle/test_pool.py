from __future__ import annotations

import gc
import threading

import numpy as np
import pyarrow as pa
import pytest

from fabric._cython.shuffle.partitioner import Partitioner
from fabric._cython.shuffle.pool import BufferPool, default_pool

BATCH = pa.record_batch({"k": np.arange(10_000), "v": np.arange(10_000) * 0.5})


def partitioner(pool: BufferPool) -> Partitioner:
    return Partitioner(BATCH.schema, ["k"], 4, pool=pool)


def test_buffers_come_back_when_the_batch_goes() -> None:
    pool = BufferPool()
    moved, _ = partitioner(pool).partition(BATCH)
    used = pool.used_bytes
    assert used >= BATCH.nbytes
    del moved
    assert pool.used_bytes == 0
    assert pool.kept_bytes >= used


def test_buffers_are_used_again() -> None:
    pool = BufferPool()
    ours = partitioner(pool)
    ours.partition(BATCH)
    fresh = pool.n_allocated
    for _ in range(10):
        ours.partition(BATCH)
    assert pool.n_allocated == fresh
    assert pool.n_reused >= 20


def test_a_slice_keeps_the_buffers() -> None:
    pool = BufferPool()
    moved, offsets = partitioner(pool).partition(BATCH)
    part = moved.slice(int(offsets[1]), 5)
    expected = part.to_pydict()
    del moved
    gc.collect()
    assert pool.used_bytes > 0
    partitioner(pool).partition(BATCH)  # would write over buffers given back too early
    assert part.to_pydict() == expected
    del part
    gc.collect()
    assert pool.used_bytes == 0


def test_what_is_kept_stays_under_the_budget() -> None:
    pool = BufferPool(100_000)
    for size in (100, 1_000, 5_000, 10_000, 3_000):
        batch = BATCH.slice(0, size)
        moved = [partitioner(pool).partition(batch)[0] for _ in range(5)]
        assert pool.used_bytes > 0
        del moved
        assert pool.kept_bytes <= 100_000


def test_a_budget_of_nothing_keeps_nothing() -> None:
    pool = BufferPool(0)
    partitioner(pool).partition(BATCH)
    assert (pool.kept_bytes, pool.used_bytes, pool.n_reused) == (0, 0, 0)


def test_old_sizes_make_room_for_new_ones() -> None:
    pool = BufferPool(1 << 20)
    small = BATCH.slice(0, 1000)
    held = [partitioner(pool).partition(small)[0] for _ in range(60)]
    del held
    for _ in range(3):
        partitioner(pool).partition(BATCH)
    fresh = pool.n_allocated
    partitioner(pool).partition(BATCH)
    assert pool.n_allocated == fresh


def test_trim_gives_everything_back() -> None:
    pool = BufferPool()
    partitioner(pool).partition(BATCH)
    pool.trim()
    assert pool.kept_bytes == 0


def test_arrays_outlive_their_pool() -> None:
    pool = BufferPool()
    moved, _ = partitioner(pool).partition(BATCH)
    del pool
    gc.collect()
    assert sorted(moved["k"].to_pylist()) == list(range(10_000))


def test_many_threads_share_one_pool() -> None:
    pool = BufferPool()
    ours = partitioner(pool)
    expected = ours.partition(BATCH)[0].to_pydict()
    wrong: list[int] = []

    def work(index: int) -> None:
        for _ in range(50):
            if ours.partition(BATCH)[0].to_pydict() != expected:
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert pool.used_bytes == 0


def test_there_is_one_default_pool() -> None:
    assert default_pool() is default_pool()
    assert Partitioner(BATCH.schema, ["k"], 4).pool is default_pool()


def test_refuses_a_negative_budget() -> None:
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        BufferPool(-1)
