"""take and scatter against the same rows picked out of Python values, on arrays of every type."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.cpu import cpu_path, cpu_paths, set_cpu_path
from fabric._cython.kernels.take import scatter, take
from tests.support.arrays import FLAT, arrays, examples, plain_arrays, rendered


def check_take(array: pa.Array, rows: list[int]) -> None:
    values = rendered(array)
    taken = take(array, np.array(rows, dtype=np.uint32))
    taken.validate(full=True)
    assert taken.type == array.type
    assert rendered(taken) == [values[row] for row in rows]


def check_scatter(array: pa.Array, targets: list[int]) -> None:
    moved = scatter(array, np.array(targets, dtype=np.uint32))
    moved.validate(full=True)
    assert moved.type == array.type
    values = rendered(moved)
    assert [values[target] for target in targets] == rendered(array)


def on_every_cpu(check: object, *arguments: object) -> None:
    before = cpu_path()
    try:
        for name in cpu_paths():
            set_cpu_path(name)
            check(*arguments)  # type: ignore[operator]
    finally:
        set_cpu_path(before)


@pytest.mark.parametrize("kind", FLAT, ids=str)
@examples(1 / 6)
@given(data=st.data())
def test_every_flat_type(kind: pa.DataType, data: st.DataObject) -> None:
    array = data.draw(plain_arrays(kind, min_size=1))
    rows = data.draw(st.lists(st.integers(0, len(array) - 1), max_size=80))
    on_every_cpu(check_take, array, rows)
    on_every_cpu(check_scatter, array, data.draw(st.permutations(range(len(array)))))


@examples(4)
@given(array=arrays(), data=st.data())
def test_every_type_and_layout(array: pa.Array, data: st.DataObject) -> None:
    last = len(array) - 1
    rows = data.draw(st.lists(st.integers(0, last), max_size=80)) if last >= 0 else []
    on_every_cpu(check_take, array, rows)
    on_every_cpu(check_scatter, array, data.draw(st.permutations(range(len(array)))))


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 63, 64, 65, 1000])
def test_sizes_around_words(size: int, forced_cpu: str) -> None:
    rng = np.random.default_rng(size)
    order = rng.permutation(size).astype(np.uint32)
    nulls = pa.array([None if i % 3 == 0 else i for i in range(size)], pa.int32())
    texts = pa.array([None if i % 5 == 0 else "x" * int(i % 150) for i in range(size)], pa.string())
    for array in (nulls, texts, pc.equal(nulls, 4), texts.cast(pa.string_view())):
        check_take(array, order.tolist())
        check_scatter(array, order.tolist())


@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary(), pa.binary_view()], ids=str)
def test_long_and_short_bytes_side_by_side(kind: pa.DataType, forced_cpu: str) -> None:
    sizes = [0, 1, 12, 13, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000, 0]
    array = pa.array(["é"[: n % 2] + "y" * n for n in sizes]).cast(pa.binary()).cast(kind)
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(len(sizes)).tolist()
        check_take(array, order)
        check_scatter(array, order)


def test_dictionaries_are_kept_not_copied() -> None:
    array = pa.array(["a", "b", "a", None]).dictionary_encode()
    taken = take(array, np.array([3, 1], dtype=np.uint32))
    address = array.dictionary.buffers()[1].address
    assert taken.dictionary.buffers()[1].address == address
    assert taken.to_pylist() == [None, "b"]


def test_a_dictionary_outlives_its_array() -> None:
    array = pa.array([f"value {i}" for i in range(1000)]).dictionary_encode()
    taken = take(array, np.arange(999, -1, -1, dtype=np.uint32))
    del array
    gc.collect()
    assert taken[0].as_py() == "value 999"
    assert taken.dictionary[5].as_py() == "value 5"


def test_a_child_outlives_its_parent() -> None:
    array = pa.array([{"a": i, "b": str(i)} for i in range(100)])
    child = take(array, np.arange(100, dtype=np.uint32)).field(1)
    gc.collect()
    assert child.to_pylist() == [str(i) for i in range(100)]


def test_views_come_out_compact_and_in_order() -> None:
    long = [f"a value of more than twelve bytes {i}" for i in range(100)]
    array = pa.array(long, pa.string_view()).slice(10, 80)
    taken = take(array, np.array([5, 3], dtype=np.uint32))
    data = [buffer for buffer in taken.buffers()[2:] if buffer is not None]
    assert data[0].to_pybytes().startswith((long[15] + long[13]).encode())
    assert sum(buffer.size for buffer in data) < 256


def test_garbage_views_under_nulls_are_not_followed() -> None:
    views = np.frombuffer(pa.array(["x" * 20, "short"], pa.string_view()).buffers()[1], np.uint8)
    garbage = np.concatenate([views[:32], np.full(16, 0xFF, np.uint8)])
    array = pa.Array.from_buffers(
        pa.string_view(), 3,
        [pa.py_buffer(b"\x03"), pa.py_buffer(garbage.tobytes()), pa.py_buffer(b"x" * 20)],
    )  # fmt: skip
    check_take(array, [2, 0, 1, 2])
    check_scatter(array, [2, 0, 1])


def test_nulls_that_hold_bytes_come_out_empty(forced_cpu: str) -> None:
    full = pa.array(["aa", "bb", "cc"])
    array = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), *full.buffers()[1:]])
    for moved in (
        take(array, np.array([1, 0, 2], dtype=np.uint32)),
        scatter(array, np.array([1, 0, 2], dtype=np.uint32)),
    ):
        assert moved.to_pylist() == [None, "aa", "cc"]
        assert np.frombuffer(moved.buffers()[1], np.int32)[:4].tolist() == [0, 0, 2, 4]


def test_a_useless_validity_bitmap_is_dropped() -> None:
    array = pa.array([1, None, 3]).slice(2)
    assert take(array, np.zeros(2, dtype=np.uint32)).buffers()[0] is None


def test_null_counts_are_exact() -> None:
    array = pa.array([1, None, 3, None, 5]).slice(1)
    assert take(array, np.array([0, 0, 1], dtype=np.uint32)).null_count == 2
    assert take(pa.nulls(4), np.zeros(3, dtype=np.uint32)).null_count == 3


def test_extension_types_stay() -> None:
    array = pa.array([b"a" * 16, None, b"b" * 16], pa.uuid())
    taken = take(array, np.array([2, 1], dtype=np.uint32))
    assert taken.type == pa.uuid()
    assert taken.equals(array.take(pa.array([2, 1])))


def test_offsets_that_overflow_are_refused() -> None:
    array = pa.array(["x" * (1 << 20)])
    with pytest.raises(OverflowError, match="do not fit 32 bits"):
        take(array, np.zeros(3000, dtype=np.uint32))


def test_refuses_rows_out_of_range() -> None:
    with pytest.raises(IndexError, match="row 3 is out of range for 3 rows"):
        take(pa.array([1, 2, 3]), np.array([0, 3], dtype=np.uint32))


@pytest.mark.parametrize("targets", [[0, 0, 1], [0, 1], [0, 1, 3], [0, 1, 2, 3]])
def test_refuses_what_is_no_permutation(targets: list[int]) -> None:
    with pytest.raises(ValueError, match="must be a permutation of 3 rows"):
        scatter(pa.array([1, 2, 3]), np.array(targets, dtype=np.uint32))
