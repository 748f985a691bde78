from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fabric._cython.kernels.hash import N_KEY_GROUPS, hash_columns, partition_of, partition_rows
from tests.support.arrays import examples

Hashes = NDArray[np.uint64]


def hashes_of(size: int, seed: int) -> Hashes:
    return np.random.default_rng(seed).integers(0, 2**64, size, dtype=np.uint64)


def oracle(hashes: Hashes, n: int) -> list[list[int]]:
    groups: list[list[int]] = [[] for _ in range(n)]
    for row, value in enumerate(hashes.tolist()):
        groups[(value >> 49) * n >> 15].append(row)
    return groups


def grouped(hashes: Hashes, n: int) -> list[list[int]]:
    offsets, rows = partition_rows(hashes, n)
    assert offsets.dtype == rows.dtype == np.int64
    return [rows[a:b].tolist() for a, b in pairwise(offsets.tolist())]


@examples(2)
@given(size=st.integers(0, 400), seed=st.integers(0, 2**32), n=st.integers(1, 40))
def test_matches_oracle(size: int, seed: int, n: int) -> None:
    hashes = hashes_of(size, seed)
    assert grouped(hashes, n) == oracle(hashes, n)


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 1000, 1024, 1025, 32_767, 32_768])
@pytest.mark.parametrize("size", [0, 1, 3, 63, 64, 65, 4095, 70_001])
def test_sizes_and_numbers_of_partitions(n: int, size: int, forced_cpu: str) -> None:
    hashes = hashes_of(size, size + n)
    assert grouped(hashes, n) == oracle(hashes, n)
    assert partition_of(hashes, n).tolist() == [(h >> 49) * n >> 15 for h in hashes.tolist()]


@pytest.mark.parametrize("n", [1, 4, 16, 1024, 32_768])
def test_one_hash_for_all_rows(n: int, forced_cpu: str) -> None:
    hashes = np.full(10_001, 0xDEADBEEF_12345678, dtype=np.uint64)
    assert grouped(hashes, n) == oracle(hashes, n)


def test_the_ends_of_the_range_are_reached() -> None:
    ends = np.array([0, 2**64 - 1], dtype=np.uint64)
    for n in (1, 2, 3, 100, 32_767, 32_768):
        assert partition_of(ends, n).tolist() == [0, n - 1]


def test_each_partition_owns_one_range_of_key_groups() -> None:
    groups = np.arange(N_KEY_GROUPS, dtype=np.uint64) << np.uint64(49)
    for n in (3, 128, 1000):
        ids = partition_of(groups, n).astype(np.int64)
        assert (np.diff(ids) >= 0).all()
        assert set(ids.tolist()) == set(range(n))
        assert np.bincount(ids).min() >= N_KEY_GROUPS // n


@pytest.mark.parametrize("n", [0, -1, 32_769, 2**40])
def test_refuses_numbers_out_of_range(n: int) -> None:
    message = f"n_partitions must be between 1 and 32768, got {n}"
    for function in (partition_of, partition_rows):
        with pytest.raises(ValueError, match=message):
            function(hashes_of(1, 1), n)


def test_refuses_other_dtypes() -> None:
    with pytest.raises(ValueError, match="Buffer dtype mismatch"):
        partition_rows(np.zeros(3), 2)  # type: ignore[arg-type]


def test_sequential_keys_fall_evenly() -> None:
    ids = partition_of(hash_columns([pa.array(np.arange(200_000))]), 16)
    counts = np.bincount(ids)
    assert counts.min() > 0.97 * 200_000 / 16
    assert counts.max() < 1.03 * 200_000 / 16
