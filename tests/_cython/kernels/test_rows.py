"""Rows beside the columns they came from, whatever the types."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.hash import hash_columns
from fabric._cython.kernels.rows import RowCodec, leading_times
from tests.support.arrays import FLAT, examples, plain_arrays, types, values

ENCODED = (pa.types.is_list_view, pa.types.is_large_list_view, pa.types.is_string_view,
           pa.types.is_binary_view)  # fmt: skip


def is_plain(kind: pa.DataType) -> bool:
    if any(is_kind(kind) for is_kind in ENCODED):
        return False
    return all(is_plain(kind.field(i).type) for i in range(kind.num_fields))


PLAIN = types().filter(is_plain)
KEY_TYPES = [kind for kind in FLAT if is_plain(kind) and kind != pa.month_day_nano_interval()]


def codec_of(kind: pa.DataType, *, canonical: bool = False) -> RowCodec:
    return RowCodec(pa.schema([("value", kind)]), canonical)


@examples(4)
@given(st.data(), PLAIN, st.binary(max_size=9))
def test_columns_come_back(data: st.DataObject, kind: pa.DataType, prefix: bytes) -> None:
    array = data.draw(plain_arrays(kind))
    codec = codec_of(kind)
    rows = codec.encode([array], prefix)
    rows.validate(full=True)
    (back,) = codec.decode(rows, len(prefix))
    back.validate(full=True)
    assert repr(back.to_pylist()) == repr(array.to_pylist())  # NaN has itself there
    cut = codec.decode(rows.slice(1), len(prefix))[0] if len(rows) else back
    assert repr(cut.to_pylist()) == repr(array.to_pylist()[1:])


@examples(4)
@given(st.data(), PLAIN)
def test_one_value_is_a_row_of_a_column(data: st.DataObject, kind: pa.DataType) -> None:
    array = data.draw(plain_arrays(kind, 1, 4))
    codec = codec_of(kind)
    for value, row in zip(array.to_pylist(), codec.encode([array]).to_pylist(), strict=True):
        assert repr(codec.decode_one(row)) == repr(value)
        # Python has no nanoseconds, a NaN has other bits when it went through a Python float
        if not any(odd in f"{kind} {value!r}" for odd in ("map", "halffloat", "ns", "nan")):
            assert codec.encode_one(value) == row


@examples(4)
@given(st.data(), st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=3))
def test_keys_hash_like_their_columns(data: st.DataObject, kinds: list[pa.DataType]) -> None:
    size = data.draw(st.integers(0, 12))
    arrays = [data.draw(plain_arrays(kind, size, size)) for kind in kinds]
    codec = RowCodec(pa.schema([(str(i), kind) for i, kind in enumerate(kinds)]), True)
    rows = codec.encode(arrays)
    wanted = hash_columns(arrays).tolist()
    assert codec.hashes(rows).tolist() == wanted
    keys = codec.group_keys(b"ab", rows)
    assert [key[4:] for key in keys] == rows.to_pylist()
    assert [int.from_bytes(key[2:4], "big") for key in keys] == [hash_ >> 49 for hash_ in wanted]


@examples(2)
@given(st.data(), st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=3))
def test_no_row_begins_another(data: st.DataObject, kinds: list[pa.DataType]) -> None:
    arrays = [data.draw(plain_arrays(kind, 8, 8)) for kind in kinds]
    codec = RowCodec(pa.schema([(str(i), kind) for i, kind in enumerate(kinds)]), True)
    rows = codec.encode(arrays).to_pylist()
    for a in rows:
        assert all(a == b or not b.startswith(a) for b in rows)
    subs = pa.array([b"%d" % i for i in range(8)], pa.large_binary())
    placed = codec.group_keys(b"xy", pa.array(rows, pa.large_binary()), subs)
    assert codec.split(placed, 4) == (rows, subs.to_pylist())


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.float16()])
def test_equal_floats_are_one_key(kind: pa.DataType) -> None:
    bits = {16: 0xFE01, 32: 0xFFC00001, 64: 0xFFF8000000000001}[kind.bit_width]
    odd = np.array([bits], f"u{kind.bit_width // 8}").view(f"f{kind.bit_width // 8}")
    plain = np.array([np.nan, 0.0], odd.dtype)
    codec = codec_of(kind, canonical=True)
    one, zero = codec.encode([pa.array(plain, kind)]).to_pylist()
    assert codec.encode([pa.array(odd, kind)]).to_pylist() == [one]
    assert codec.encode([pa.array(-plain[1:], kind)]).to_pylist() == [zero]
    if kind != pa.float16():
        assert codec.encode_one(math.nan) == one
        assert codec.encode_one(-0.0) == zero


def test_the_format_stays() -> None:
    """Version 1: what was stored is read by every later Fabric."""
    kind = pa.struct({"a": pa.list_(pa.int16()), "b": pa.string(), "c": pa.bool_()})
    row = codec_of(kind).encode_one({"a": [1, None], "b": "é", "c": True})
    assert row.hex() == "01" + "0102000000" + "010100" + "00" + "0102000000c3a9" + "0101"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int8(), 128),
        (pa.uint16(), -1),
        (pa.int64(), 2**63),
        (pa.int64(), 1.5),
        (pa.int64(), "7"),
        (pa.string(), b"x"),
        (pa.binary(), "x"),
        (pa.bool_(), 1),
        (pa.float64(), "x"),
        (pa.struct({"a": pa.int64()}), {"b": 1}),
        (pa.struct({"a": pa.timestamp("us")}), {"b": None}),
        (pa.struct({"a": pa.int64()}), [1]),
        (pa.timestamp("us"), "yesterday"),
    ],
)
def test_a_value_of_another_type_is_refused(kind: pa.DataType, value: object) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        codec_of(kind).encode_one(value)


@pytest.mark.parametrize(
    "kind",
    [
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.list_(pa.binary_view()),
        pa.list_view(pa.int8()),
        pa.run_end_encoded(pa.int16(), pa.int8()),
        pa.dense_union([pa.field("a", pa.int8())]),
    ],
)
def test_encodings_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(TypeError, match="plain types"):
        codec_of(kind)


@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.month_day_nano_interval()])
def test_nested_keys_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(TypeError, match="keys are flat values"):
        codec_of(kind, canonical=True)


def test_a_row_has_columns() -> None:
    with pytest.raises(TypeError, match="one column or more"):
        RowCodec(pa.schema([]))


@examples(4)
@given(st.data(), PLAIN)
def test_damaged_rows_are_errors_or_other_values(data: st.DataObject, kind: pa.DataType) -> None:
    codec = codec_of(kind)
    row = codec.encode([pa.array([data.draw(values(kind))], kind)])[0].as_py()
    at = data.draw(st.integers(0, len(row)))
    changed = row[:at] + data.draw(st.binary(max_size=3)) + row[at + data.draw(st.integers(0, 2)) :]
    try:
        codec.decode(pa.array([changed], pa.large_binary()))[0].validate()
    except RuntimeError as error:
        assert "row of state" in str(error)  # noqa: PT017
    for short in range(len(row)):
        with pytest.raises(RuntimeError, match="ends too soon"):
            codec.decode(pa.array([row[:short]], pa.large_binary()))


def test_rows_are_large_binary() -> None:
    codec = codec_of(pa.int8())
    for wrong in (pa.array([b"x"]), pa.chunked_array([[b"x"]], pa.large_binary())):
        with pytest.raises(TypeError, match="large_binary"):
            codec.decode(wrong)
    rows, keys = pa.array([b"\0", b"\0"], pa.large_binary()), codec_of(pa.int8(), canonical=True)
    with pytest.raises(ValueError, match="2 keys need as many subs, got 1"):
        keys.group_keys(b"", rows, rows[:1])


def test_leading_times() -> None:
    rows = pa.array([(7).to_bytes(8, "little") + b"x", None, b"\xff" * 8], pa.large_binary())
    assert leading_times(rows).tolist() == [7, 0, -1]
    assert leading_times(rows[1:]).tolist() == [0, -1]
    with pytest.raises(RuntimeError, match="ends too soon"):
        leading_times(pa.array([b"1234567"], pa.large_binary()))
