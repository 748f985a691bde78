"""hash_columns and partition_rows, rows/s: `pytest bench/kernels/bench_hash.py`."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fabric._cython.kernels.cpu import cpu_path, cpu_paths, set_cpu_path
from fabric._cython.kernels.hash import hash_columns, partition_rows

N_ROWS = 65_536
RNG = np.random.default_rng(1)
TEXT = pa.array([f"key {i}" for i in RNG.integers(0, 10**9, N_ROWS)])
COLUMNS = {
    "int64": pa.array(RNG.integers(0, 2**62, N_ROWS)),
    "int64 nulls": pa.array(RNG.integers(0, 2**62, N_ROWS), mask=RNG.random(N_ROWS) < 0.1),
    "float64": pa.array(RNG.random(N_ROWS)),
    "decimal": pa.array([Decimal(int(i)) for i in RNG.integers(0, 10**9, N_ROWS)]),
    "string": TEXT,
    "string_view": TEXT.cast(pa.string_view()),
    "dictionary": pa.array(RNG.integers(0, 100, N_ROWS).astype(str)).dictionary_encode(),
    "list": pa.array(np.split(np.arange(2 * N_ROWS), N_ROWS)),
    "struct": pa.StructArray.from_arrays([pa.array(np.arange(N_ROWS)), TEXT], ["a", "b"]),
}


@pytest.mark.parametrize("path", cpu_paths())
@pytest.mark.parametrize("name", COLUMNS)
def test_hash_columns(benchmark: BenchmarkFixture, name: str, path: str) -> None:
    before = cpu_path()
    set_cpu_path(path)
    benchmark.extra_info["rows"] = N_ROWS
    hashes = benchmark(hash_columns, [COLUMNS[name]])
    set_cpu_path(before)
    assert len(hashes) == N_ROWS


@pytest.mark.parametrize("n", [4, 16, 64, 1024, 32_768])
def test_partition_rows(benchmark: BenchmarkFixture, n: int) -> None:
    hashes = hash_columns([COLUMNS["int64"]])
    offsets, _ = benchmark(partition_rows, hashes, n)
    assert offsets[-1] == N_ROWS
