"""scatter of a permutation, beside pyarrow's take: `pytest bench/kernels/bench_take.py`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fabric._cython.kernels.hash import hash_columns, partition_rows
from fabric._cython.kernels.take import scatter
from fabric._cython.shuffle.checksum import batch_crc32c

N_ROWS = 65_536
RNG = np.random.default_rng(1)
TEXT = pa.array(["x" * int(n) for n in RNG.integers(0, 40, N_ROWS)])
COLUMNS = {
    "int64": pa.array(RNG.integers(0, 2**62, N_ROWS)),
    "int64 nulls": pa.array(RNG.integers(0, 2**62, N_ROWS), mask=RNG.random(N_ROWS) < 0.1),
    "boolean": pa.array(RNG.random(N_ROWS) < 0.5),
    "string": TEXT,
    "string_view": TEXT.cast(pa.string_view()),
    "list": pa.array(np.split(np.arange(2 * N_ROWS), N_ROWS)),
    "fixed_list": pa.FixedSizeListArray.from_arrays(pa.array(RNG.random(16 * N_ROWS)), 16),
    "struct": pa.StructArray.from_arrays([pa.array(np.arange(N_ROWS)), TEXT], ["a", "b"]),
}
ROWS = partition_rows(hash_columns([COLUMNS["int64"]]), 16)[1]
TARGETS = np.empty(N_ROWS, np.uint32)
TARGETS[ROWS] = np.arange(N_ROWS)


@pytest.mark.parametrize("name", COLUMNS)
def test_scatter(benchmark: BenchmarkFixture, name: str) -> None:
    moved = benchmark(scatter, COLUMNS[name], TARGETS)
    if name != "string_view":  # pyarrow can't take these
        assert moved.equals(COLUMNS[name].take(pa.array(ROWS)))


@pytest.mark.parametrize("name", sorted(COLUMNS.keys() - {"string_view"}))
def test_pyarrow_take(benchmark: BenchmarkFixture, name: str) -> None:
    rows = pa.array(ROWS)
    benchmark(COLUMNS[name].take, rows)


@pytest.mark.parametrize("name", COLUMNS)
def test_crc32c(benchmark: BenchmarkFixture, name: str) -> None:
    benchmark.extra_info["bytes"] = COLUMNS[name].nbytes
    benchmark(batch_crc32c, COLUMNS[name])
