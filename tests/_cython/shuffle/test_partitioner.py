"""Partitioner against pyarrow's take by our hash; placement itself is tested in kernels/."""

from __future__ import annotations

import gc
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fabric._cython.kernels.cpu import cpu_path, cpu_paths, set_cpu_path
from fabric._cython.kernels.hash import hash_columns
from fabric._cython.shuffle.partitioner import Partitioner
from fabric._cython.shuffle.pool import BufferPool
from tests.support.arrays import batches, examples, rendered

ALL_N = [1, 2, 16, 17, 1_024, 1_025, 32_768]


def columns_of(batch: pa.RecordBatch) -> list[list[str]]:
    return [rendered(column) for column in batch.columns]


def expected_ids(
    batch: pa.RecordBatch, keys: list[str], n: int, seed: int = 0
) -> NDArray[np.int64]:
    hashes = hash_columns([batch[key] for key in keys], seed)
    return ((hashes >> np.uint64(49)) * np.uint64(n) >> np.uint64(15)).astype(np.int64)


def check(batch: pa.RecordBatch, keys: list[str], n: int, seed: int = 0) -> pa.RecordBatch:
    moved, offsets = Partitioner(batch.schema, keys, n, seed=seed).partition(batch)
    moved.validate(full=True)
    ids = expected_ids(batch, keys, n, seed)
    order = np.argsort(ids, kind="stable")
    assert moved.schema.equals(batch.schema, check_metadata=True)
    assert offsets.dtype == np.int64
    assert offsets.tolist() == [0, *np.cumsum(np.bincount(ids, minlength=n)).tolist()]
    assert columns_of(moved) == [[column[i] for i in order] for column in columns_of(batch)]
    return moved


@examples(4)
@given(batch=batches(), data=st.data(), n=st.sampled_from([1, 2, 3, 7, 16, 20, 1_000, 32_768]))
def test_batches_of_every_type(batch: pa.RecordBatch, data: st.DataObject, n: int) -> None:
    names = batch.schema.names
    keys = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    before = cpu_path()
    try:
        for name in cpu_paths():
            set_cpu_path(name)
            check(batch, keys, n)
    finally:
        set_cpu_path(before)


def flights(size: int, n_keys: int, seed: int = 1) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    mask = rng.random(size) < 0.1
    return pa.record_batch(
        {
            "key": pa.array(rng.integers(0, n_keys, size) << 32, mask=mask),
            "late": pa.array(rng.random(size)),
            "name": pa.array([f"flight {i % 977}" for i in range(size)]),
            "code": pa.array(rng.integers(0, 5, size).astype(np.int8)).dictionary_encode(),
            "there": pa.array(rng.random(size) < 0.5, mask=~mask),
        }
    )


@pytest.mark.parametrize("n", ALL_N)
@pytest.mark.parametrize("size", [0, 1, 5, 1_024, 20_003])
def test_sizes_and_numbers_of_partitions(n: int, size: int, forced_cpu: str) -> None:
    check(flights(size, 5_000), ["key"], n)


@pytest.mark.parametrize("n", ALL_N)
def test_more_keys_than_key_groups(n: int) -> None:
    batch = pa.record_batch({"k": np.arange(100_000), "v": np.arange(100_000)[::-1]})
    moved = check(batch, ["k"], n)
    assert moved.num_rows == 100_000


@pytest.mark.parametrize("n", ALL_N)
def test_one_key_for_all_rows(n: int, forced_cpu: str) -> None:
    batch = pa.record_batch({"k": ["same"] * 3_000, "v": list(range(3_000))})
    moved = check(batch, ["k"], n)
    assert moved["v"].to_pylist() == list(range(3_000))


def test_keys_that_differ_in_the_high_half_only() -> None:
    batch = pa.record_batch({"k": [i << 32 for i in range(10_000)]})
    _, offsets = Partitioner(batch.schema, ["k"], 16).partition(batch)
    assert np.diff(offsets).min() > 500  # 625 on average


def partition_ids(batch: pa.RecordBatch, n: int) -> dict[int, int]:
    moved, offsets = Partitioner(batch.schema, ["k"], n).partition(batch)
    rows = moved["row"].to_pylist()
    return {row: p for p, (a, b) in enumerate(pairwise(offsets.tolist())) for row in rows[a:b]}


def test_nulls_nans_and_zeros_meet_their_like() -> None:
    keys = pa.array([None, float("nan"), 0.0, None, float("-nan"), -0.0], from_pandas=False)
    where = partition_ids(pa.record_batch({"k": keys, "row": range(6)}), 32_768)
    assert where[0] == where[3]
    assert where[1] == where[4]
    assert where[2] == where[5]


def test_layouts_of_one_value_meet() -> None:
    text = pa.array([f"k{i % 50}" for i in range(200)])
    rows = pa.array(range(200))
    layouts = [text, text.cast(pa.large_string()), text.cast(pa.string_view())]
    layouts += [text.dictionary_encode(), text.cast(pa.binary())]
    found = [partition_ids(pa.record_batch({"k": k, "row": rows}), 100) for k in layouts]
    assert all(one == found[0] for one in found)


def test_a_repartition_by_a_multiple_refines() -> None:
    """Partitions own ranges of key groups, so those of 4 are unions of those of 8."""
    batch = pa.record_batch({"k": range(5_000), "row": range(5_000)})
    four, eight = partition_ids(batch, 4), partition_ids(batch, 8)
    assert all(four[row] == eight[row] // 2 for row in four)


def test_seeds_place_differently() -> None:
    batch = pa.record_batch({"k": range(1_000)})
    check(batch, ["k"], 16, seed=7)
    assert not np.array_equal(*(expected_ids(batch, ["k"], 16, seed) for seed in (0, 7)))


@examples()
@given(
    batch=batches(), data=st.data(), n=st.sampled_from([1, 2, 17, 1_025]), begin=st.integers(0, 9)
)
def test_rows_that_say_their_partition(
    batch: pa.RecordBatch, data: st.DataObject, n: int, begin: int
) -> None:
    size = batch.num_rows
    ids = data.draw(st.lists(st.integers(0, n - 1), min_size=size, max_size=size))
    numbers = pa.array([0] * begin + ids, pa.int32()).slice(begin)
    name = next(f"{i}" for i in range(99) if f"{i}" not in batch.schema.names)
    rows = batch.append_column(name, numbers)
    moved, offsets = Partitioner(rows.schema, [name], n, numbered=True).partition(rows)
    moved.validate(full=True)
    order = np.argsort(np.array(ids, np.int64), kind="stable")
    counts = np.bincount(np.array(ids, np.int64), minlength=n)
    assert offsets.tolist() == [0, *np.cumsum(counts).tolist()]
    assert columns_of(moved) == [[column[i] for i in order] for column in columns_of(rows)]


@pytest.mark.parametrize("numbers", [[0, 3], [0, -1], [0, None]])
def test_numbers_of_no_partition_are_refused(numbers: list[int | None]) -> None:
    batch = pa.record_batch({"p": pa.array(numbers, pa.int32())})
    partitioner = Partitioner(batch.schema, ["p"], 3, numbered=True)
    with pytest.raises(ValueError, match=r"a row has (the|no) number of (no|a) partition"):
        partitioner.partition(batch)
    with pytest.raises(ValueError, match="numbers of partitions are one int32 column"):
        Partitioner(pa.schema([("p", pa.int64())]), ["p"], 3, numbered=True)


@pytest.mark.parametrize("n_chunks", [0, 1, 50])
def test_tables_go_chunk_by_chunk(n_chunks: int) -> None:
    batch = flights(1_000, 100)
    table = pa.Table.from_batches([batch.slice(20 * i, 20) for i in range(n_chunks)], batch.schema)
    found = Partitioner(batch.schema, ["key"], 8).partition_table(table)
    assert len(found) == n_chunks
    whole, whole_offsets = Partitioner(batch.schema, ["key"], 8).partition(batch)
    for p in range(8) if n_chunks == 50 else ():
        parts = [b["name"].slice(int(o[p]), int(o[p + 1] - o[p])) for b, o in found]
        first, last = int(whole_offsets[p]), int(whole_offsets[p + 1])
        assert rendered(pa.concat_arrays(parts)) == rendered(
            whole["name"].slice(first, last - first)
        )


def test_slices_of_the_output_copy_nothing() -> None:
    batch = flights(1_000, 100)
    moved, offsets = Partitioner(batch.schema, ["key"], 4).partition(batch)
    part = moved.slice(int(offsets[2]), 10)
    assert part["late"].buffers()[1].address == moved["late"].buffers()[1].address


def test_the_input_may_go_before_the_output() -> None:
    batch = flights(5_000, 100)
    moved, _ = Partitioner(batch.schema, ["key"], 8, pool=BufferPool()).partition(batch)
    expected = columns_of(moved)
    del batch
    gc.collect()
    assert columns_of(moved) == expected


def test_metadata_and_extension_types_stay() -> None:
    schema = pa.schema(
        [pa.field("id", pa.uuid(), metadata={"a": "b"}), pa.field("v", pa.int8(), nullable=False)],
        metadata={"made": "here"},
    )
    ids = pa.array([bytes([i]) * 16 for i in range(50)], pa.uuid())
    batch = pa.record_batch([ids, pa.array(range(50), pa.int8())], schema=schema)
    check(batch, ["id"], 5)


def test_unaligned_buffers_are_read_right(forced_cpu: str) -> None:
    values = np.arange(1_000, dtype=np.int64)
    shifted = pa.py_buffer(b"\0" + values.tobytes()).slice(1)
    odd = pa.Array.from_buffers(pa.int64(), 1_000, [None, shifted])
    check(pa.record_batch({"k": odd, "v": odd}), ["k"], 16)


def test_duplicate_names_are_fine_where_they_are_no_keys() -> None:
    columns = [pa.array(range(100)), pa.array(range(100)), pa.array(range(100))]
    batch = pa.RecordBatch.from_arrays(columns, names=["k", "x", "x"])
    moved, _ = Partitioner(batch.schema, ["k"], 4).partition(batch)
    assert moved.column(1).equals(moved.column(2))
    with pytest.raises(ValueError, match="key column 'x' is there more than once"):
        Partitioner(batch.schema, ["x"], 4)


@pytest.mark.parametrize("n", [0, -3, 32_769])
def test_refuses_numbers_out_of_range(n: int) -> None:
    with pytest.raises(ValueError, match=f"n_partitions must be between 1 and 32768, got {n}"):
        Partitioner(pa.schema({"k": pa.int8()}), ["k"], n)


def test_refuses_no_keys_and_unknown_keys() -> None:
    schema = pa.schema({"a": pa.int8(), "b": pa.int8()})
    with pytest.raises(ValueError, match="needs at least one key column, got none"):
        Partitioner(schema, [], 4)
    with pytest.raises(ValueError, match=r"key column 'c' is not there; columns are \['a', 'b'\]"):
        Partitioner(schema, ["c"], 4)


def test_refuses_a_batch_of_another_schema() -> None:
    ours = Partitioner(pa.schema({"a": pa.int8()}), ["a"], 4)
    with pytest.raises(ValueError, match=r"wanted \['a'\] .*int8.* got \['a'\] .*int16"):
        ours.partition(pa.record_batch({"a": pa.array([1], pa.int16())}))
    with pytest.raises(TypeError):
        ours.partition(None)  # type: ignore[arg-type]


def test_refuses_more_rows_than_positions_have_bits() -> None:
    batch = pa.record_batch([pa.nulls(2**32)], names=["a"])
    with pytest.raises(ValueError, match="may hold 2\\*\\*32 - 1 rows at most"):
        Partitioner(batch.schema, ["a"], 2).partition(batch)
