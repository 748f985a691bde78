"""hash_columns against the specification written out in Python, on arrays of every type."""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.cpu import cpu_path, cpu_paths, set_cpu_path
from fabric._cython.kernels.hash import hash_columns
from tests.support.arrays import (
    FLAT,
    INTEGERS,
    arrays,
    encoded_arrays,
    examples,
    plain_arrays,
    types,
)  # fmt: skip

VECTORS = Path(__file__).with_name("hash_vectors.json")
MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
NULL, LIST, STRUCT = 0xB492B66FBE98F273, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3
KEY_0, KEY_1 = 0xA0761D6478BD642F, 0xE7037ED1A0B428DB
PRIME = 2**61 - 1
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


# --- the specification, in Python -------------------------------------------------------------


def finish(x: int) -> int:
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & MASK
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & MASK
    return x ^ x >> 33


def step(state: int, word: int) -> int:
    return finish((state * GOLDEN + word) & MASK)


def fold(a: int, b: int) -> int:
    return (a * b & MASK) ^ (a * b >> 64)


def bytes_word(data: bytes) -> int:
    def read(at: int, n: int) -> int:
        return int.from_bytes(data[at : at + n], "little")

    n, seed, a, b = len(data), KEY_0, 0, 0
    if n > 16:
        for at in range(0, n - 16, 16):
            seed = fold(read(at, 8) ^ KEY_1, read(at + 8, 8) ^ seed)
        a, b = read(n - 16, 8), read(n - 8, 8)
    elif n >= 8:
        a, b = read(0, 8), read(n - 8, 8)
    elif n >= 4:
        a, b = read(0, 4), read(n - 4, 4)
    elif n > 0:
        a = data[0] << 16 | data[n >> 1] << 8 | data[n - 1]
    return fold(KEY_1 ^ n, fold(a ^ KEY_1, b ^ seed))


def float_word(value: float) -> int:
    if math.isnan(value):
        return 0x7FF8000000000000
    return int(struct.unpack("<Q", struct.pack("<d", value + 0.0))[0])


def decimal_word(value: Decimal) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator * pow(denominator, -1, PRIME) % PRIME


def nanoseconds(scalar: pa.Scalar) -> int:
    if pa.types.is_date32(scalar.type):
        return int(scalar.value) * 86_400 * 10**9
    if pa.types.is_date64(scalar.type):
        return int(scalar.value) * 10**6
    return int(scalar.value) * UNITS[scalar.type.unit]


def word(scalar: pa.Scalar) -> int:
    kind = scalar.type
    if isinstance(scalar, pa.DictionaryScalar | pa.UnionScalar | pa.ExtensionScalar):
        return NULL if scalar.value is None else word(scalar.value)
    if not scalar.is_valid:
        return NULL
    if isinstance(scalar, pa.StructScalar):
        state = STRUCT
        for i in range(kind.num_fields):
            state = step(state, word(scalar[i]))
        return state
    if isinstance(scalar, pa.ListScalar):  # lists, views, fixed-size lists, maps
        state = LIST
        for element in scalar.values:
            state = step(state, word(element))
        return step(state, len(scalar.values))
    if kind == pa.month_day_nano_interval():
        state = STRUCT
        for part in scalar.as_py():
            state = step(state, part & MASK)
        return state
    return plain_word(scalar)


def plain_word(scalar: pa.Scalar) -> int:
    kind = scalar.type
    if pa.types.is_temporal(kind):
        return nanoseconds(scalar) & MASK
    value: Any = scalar.as_py()
    if pa.types.is_decimal(kind):
        return decimal_word(value)
    if pa.types.is_floating(kind):
        return float_word(float(value))
    if isinstance(value, bool | int):
        return int(value) & MASK
    return bytes_word(value.encode() if isinstance(value, str) else value)


def oracle(columns: list[pa.Array], seed: int = 0) -> list[int]:
    hashes = []
    for row in range(len(columns[0])):
        state = finish((seed + GOLDEN) & MASK)
        for column in columns:
            state = step(state, word(column[row]))
        hashes.append(state)
    return hashes


def decoded(array: pa.Array) -> pa.Array:
    """Run-end encoded arrays have no scalars with a value; their decoded form has."""
    if pa.types.is_run_end_encoded(array.type):
        ends = np.array(array.run_ends.to_pylist())
        rows = np.searchsorted(ends, np.arange(array.offset, array.offset + len(array)), "right")
        # as_py would lose nanoseconds, and views have no `take`
        runs = [array.values.slice(row, 1) for row in rows.tolist()]
        return pa.concat_arrays([array.values.slice(0, 0), *runs])
    return array


# --- properties -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FLAT, ids=str)
@examples(1 / 6)
@given(data=st.data(), seed=st.integers(0, MASK))
def test_every_flat_type_is_as_specified(kind: pa.DataType, data: st.DataObject, seed: int) -> None:
    array = data.draw(plain_arrays(kind))
    assert hash_columns([array], seed).tolist() == oracle([array], seed)


@examples(3)
@given(data=st.data())
def test_every_nested_type_is_as_specified(data: st.DataObject) -> None:
    array = data.draw(plain_arrays(data.draw(types())))
    assert hash_columns([array]).tolist() == oracle([array])


@examples(2)
@given(array=encoded_arrays())
def test_encoded_arrays_hash_as_their_values(array: pa.Array) -> None:
    assert hash_columns([array]).tolist() == oracle([decoded(array)])


@examples()
@given(data=st.data(), size=st.integers(0, 20))
def test_keys_mix_in_order(data: st.DataObject, size: int) -> None:
    columns = [data.draw(plain_arrays(data.draw(types()), size, size)) for _ in range(3)]
    assert hash_columns(columns).tolist() == oracle(columns)


@examples()
@given(array=arrays())
def test_every_cpu_path_gives_the_same_hashes(array: pa.Array) -> None:
    before = cpu_path()
    found = []
    try:
        for name in cpu_paths():
            set_cpu_path(name)
            found.append(hash_columns([array, array]).tolist())
    finally:
        set_cpu_path(before)
    assert all(hashes == found[0] for hashes in found)


@examples()
@given(array=arrays(), data=st.data())
def test_slices_hash_as_the_whole(array: pa.Array, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(array)))
    part = array.slice(first)
    assert hash_columns([part]).tolist() == hash_columns([array]).tolist()[first:]


# --- layouts of one value ---------------------------------------------------------------------


def same(*columns: pa.Array) -> bool:
    hashes = [hash_columns([column]).tolist() for column in columns]
    return all(found == hashes[0] for found in hashes)


def test_integers_hash_by_value_in_every_width() -> None:
    assert same(*(pa.array([0, 1, 100, None], kind) for kind in INTEGERS))
    signed = [kind for kind in INTEGERS if pa.types.is_signed_integer(kind)]
    assert same(*(pa.array([-1, -128], kind) for kind in signed))


def test_floats_hash_by_value() -> None:
    kinds = pa.float16(), pa.float32(), pa.float64()
    assert same(*(pa.array([1.5, float("inf"), 0.0, 2.0**-24, None], kind) for kind in kinds))
    assert same(pa.array([0.0]), pa.array([-0.0]))


def test_all_nans_are_one() -> None:
    bits = [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001, 0xFFFFFFFFFFFFFFFF]
    nans = pa.array(np.array(bits, dtype=np.uint64).view(np.float64), from_pandas=False)
    assert len(set(hash_columns([nans]).tolist())) == 1
    assert same(nans.slice(0, 1), pa.array([float("nan")], pa.float32(), from_pandas=False))
    half = pa.array(np.array([0x7E01, 0xFE00], dtype=np.uint16).view(np.float16))
    assert same(half.slice(0, 1), half.slice(1), nans.slice(0, 1))


def test_decimals_hash_by_value_whatever_their_scale_and_width() -> None:
    values = [Decimal("1.5"), Decimal("-1.5"), Decimal("0"), Decimal("123.25"), None]
    kinds = [pa.decimal32(6, 3), pa.decimal64(8, 2), pa.decimal128(20, 5), pa.decimal256(60, 30)]
    assert same(*(pa.array(values, kind) for kind in kinds))
    large = [Decimal(10) ** 37, -(Decimal(10) ** 37), Decimal(2) ** 61 - 1]
    assert same(*(pa.array(large, kind) for kind in (pa.decimal128(38, 0), pa.decimal256(50, 3))))


def test_time_hashes_by_value_whatever_its_unit() -> None:
    seconds = pa.array([0, 1, -5, 4 * 10**9, None], pa.timestamp("s"))
    assert same(seconds, *(seconds.cast(pa.timestamp(unit)) for unit in ("ms", "us", "ns")))
    assert same(seconds, seconds.cast(pa.timestamp("s", "Europe/Prague")))
    dates = pa.array([0, 1, -5, 20_000], pa.date32())
    assert same(dates, dates.cast(pa.date64()), dates.cast(pa.timestamp("us")))
    assert same(*(pa.array([1, None], pa.duration("s")).cast(pa.duration(u)) for u in UNITS))


TEXT = ["", "a", "abc", "abcd", "seven77", "8 bytes!", "a longer one, 17b", "ž" * 40, None, "a"]


def test_strings_hash_by_bytes_in_every_layout() -> None:
    plain = pa.array(TEXT)
    kinds = pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()
    assert same(plain, plain.dictionary_encode(), *(plain.cast(kind) for kind in kinds))
    assert same(pa.array([b"abc", b"xyz"]), pa.array([b"abc", b"xyz"], pa.binary(3)))


def test_lists_hash_by_elements_in_every_layout() -> None:
    values = [[1, 2], [None, 3], None, [-1, 7]]
    kinds = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view, lambda t: pa.list_(t, 2)]
    assert same(*(pa.array(values, kind(pa.int32())) for kind in kinds))
    assert same(pa.array(values, pa.list_(pa.int8())), pa.array(values, pa.list_(pa.int64())))


def test_nesting_is_not_flattened() -> None:
    kind = pa.list_(pa.list_(pa.int8()))
    different = pa.array([[], [[]], [[], []], [[1], [2]], [[1, 2]], [[1, 2], []], None], kind)
    assert len(set(hash_columns([different]).tolist())) == len(different)


def test_large_dictionaries_hash_only_what_is_used() -> None:
    values = pa.array([f"value {i}" for i in range(5000)])
    used = pa.DictionaryArray.from_arrays(pa.array([4999, None, 0], pa.int32()), values)
    assert same(used, pa.array(["value 4999", None, "value 0"]))


def test_a_garbage_index_under_a_null_is_not_followed() -> None:
    indices = pa.Array.from_buffers(
        pa.int32(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(np.int32([1, 10**9, 0]).tobytes())]
    )
    garbage = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)
    assert same(garbage, pa.array(["b", None, "a"]))


def test_lists_longer_than_a_block_hash_right() -> None:
    array = pa.array([list(range(3000)), [], list(range(5)), None], pa.list_(pa.int64()))
    assert hash_columns([array]).tolist() == oracle([array])


def test_values_in_the_high_half_count() -> None:
    keys = pa.array([i << 32 for i in range(100_000)])
    hashes = hash_columns([keys])
    assert len(np.unique(hashes)) == len(keys)
    groups = np.bincount((hashes >> np.uint64(49)).astype(np.int64), minlength=32_768)
    assert groups.max() < 20  # 3.05 on average


def test_low_bits_are_spread_inside_one_partition() -> None:
    hashes = hash_columns([pa.array(range(200_000))])
    mine = hashes[hashes >> np.uint64(60) == 0]
    assert np.bincount((mine & np.uint64(255)).astype(np.int64)).min() > len(mine) / 256 / 2


# --- chunks, sizes, refusals ------------------------------------------------------------------


def test_chunks_may_differ_between_columns() -> None:
    left = pa.chunked_array([[1, 2], [], [3, 4, 5]], pa.int32())
    right = pa.chunked_array([["a"], ["b", None, "d", "e"]], pa.string())
    whole = [left.combine_chunks(), right.combine_chunks()]
    assert hash_columns([left, right]).tolist() == hash_columns(whole).tolist()


def test_no_rows_give_no_hashes() -> None:
    assert hash_columns([pa.array([], pa.string())]).tolist() == []
    assert hash_columns([pa.chunked_array([], pa.int64())]).tolist() == []


def test_sizes_around_a_block() -> None:
    for size in (1, 63, 64, 65, 1023, 1024, 1025, 2049):
        array = pa.array([None if i % 7 == 0 else i for i in range(size)])
        assert hash_columns([array]).tolist() == oracle([array])


def test_refuses_no_columns_and_different_lengths() -> None:
    with pytest.raises(ValueError, match=r"arrays of one length, got \[\]"):
        hash_columns([])
    with pytest.raises(ValueError, match=r"arrays of one length, got \[1, 2\]"):
        hash_columns([pa.array([1]), pa.array([1, 2])])


# --- the same everywhere ----------------------------------------------------------------------


def vector_columns() -> dict[str, pa.Array]:
    return {
        "int64": pa.array([0, 1, -1, 2**63 - 1, -(2**63), 1 << 32, None]),
        "uint64": pa.array([0, 2**64 - 1], pa.uint64()),
        "float64": pa.array([0.0, -0.0, 1.5, float("nan"), float("inf"), None], from_pandas=False),
        "boolean": pa.array([True, False, None]),
        "decimal": pa.array([Decimal("1.50"), Decimal("-1.50"), None], pa.decimal128(10, 2)),
        "timestamp": pa.array([0, 1_700_000_000_000_000, None], pa.timestamp("us")),
        "date": pa.array([0, 19_000, -1], pa.date32()),
        "string": pa.array(TEXT),
        "list": pa.array([[1, None], [], None, [3]], pa.list_(pa.int32())),
        "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
        "map": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int8())),
        "interval": pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
        "null": pa.nulls(2),
    }


@pytest.mark.parametrize("seed", [0, 42])
def test_vectors_are_what_was_checked_in(seed: int, forced_cpu: str) -> None:
    checked_in = json.loads(VECTORS.read_text())[str(seed)]
    found = {
        name: [f"{value:016x}" for value in hash_columns([column], seed).tolist()]
        for name, column in vector_columns().items()
    }
    assert found == checked_in


@pytest.mark.parametrize("salt", ["0", "12345"])
def test_another_process_gives_the_same_hashes(salt: str) -> None:
    code = (
        "import pyarrow as pa; from fabric._cython.kernels.hash import hash_columns;"
        "print(hash_columns([pa.array(['a', None, 'flight']), pa.array([1, 2, 3])]).tolist())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": salt}
    command = [sys.executable, "-c", code]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    mine = hash_columns([pa.array(["a", None, "flight"]), pa.array([1, 2, 3])]).tolist()
    assert json.loads(answer.stdout) == mine
