"""JSON decoder, type by type: held against the reader of JSON files and Python's own types."""

from __future__ import annotations

import base64
import json
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fabric._cython.codecs.text import JsonDecoder
from fabric.io.files.ndjson import parse
from tests.support.arrays import DECIMALS, INTEGERS, examples


def one(dtype: pa.DataType, text: str) -> Any:
    """The value of one field, or a sentence why it is bad."""
    found = JsonDecoder(pa.schema([("a", dtype)])).decode(pa.array([f'{{"a": {text}}}']))
    return found.batch["a"][0].as_py() if not found.bad else found.bad[0].reason


def both(dtype: pa.DataType, text: str) -> None:
    """Assert that a field is read as in a file, or by neither."""
    document = f'{{"a": {text}}}'.encode()
    schema = pa.schema([("a", dtype)])
    found = JsonDecoder(schema).decode(pa.array([document]))
    try:
        expected = parse(document, schema, ["a"]).column("a").combine_chunks()
    except ValueError:
        assert len(found.bad) == 1, f"{text} was read as {found.batch['a']}"
        return
    assert found.bad == ()
    same = found.batch["a"].equals(expected)
    assert same or str(found.batch["a"]) == str(expected)  # NaN


NUMBER_TEXTS = st.one_of(
    st.integers().map(str),
    st.integers(-(2**65), 2**65).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"\A-?(0|[1-9][0-9]{0,4})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,2})?\Z"),
    st.text("0123456789-+.eE", max_size=6),
    st.sampled_from(["NaN", "Infinity", "-Infinity", "true", "null", '"1"', "[1]", "{}", "01"]),
)


@examples()
@given(st.sampled_from([*INTEGERS, pa.float64(), pa.float32(), pa.bool_(), pa.string()]),
       NUMBER_TEXTS)  # fmt: skip
@example(pa.int8(), "-129")
@example(pa.uint64(), str(2**64 - 1))
@example(pa.uint64(), str(2**64))
@example(pa.int64(), str(-(2**63)))
@example(pa.int64(), "1.0")
@example(pa.int64(), "-0")
@example(pa.float64(), "1e400")
@example(pa.float64(), "1e-400")
@example(pa.float64(), "9007199254740993")
@example(pa.float32(), "1.00000017881393432617187499")  # twice rounded, it would be another one
@example(pa.float32(), "16777217")
def test_numbers_are_read_as_from_files(dtype: pa.DataType, text: str) -> None:
    if dtype == pa.float32() and "e" in text.lower() and not _is_small(text):
        return  # the reader of files takes what is too large for infinite
    if text == "-0" and pa.types.is_unsigned_integer(dtype):
        return  # which it refuses; Python has it for 0
    both(dtype, text)


def _is_small(text: str) -> bool:
    try:
        return abs(float(text)) < 3e38
    except ValueError:
        return True


@pytest.mark.parametrize(("dtype", "text"), [(pa.float32(), "1e39"), (pa.float16(), "65520")])
def test_no_number_becomes_infinite(dtype: pa.DataType, text: str) -> None:
    assert "is not a valid" in one(dtype, text)


@examples()
@given(
    st.sampled_from([*DECIMALS, pa.decimal128(3, 3), pa.decimal128(38, 0)]),
    NUMBER_TEXTS | NUMBER_TEXTS.map(lambda text: f'"{text}"'),
)
@example(pa.decimal128(38, 0), "9" * 38)
@example(pa.decimal128(38, 0), "9" * 39)
@example(pa.decimal128(38, 0), "-" + "9" * 38)
@example(pa.decimal256(60, 10), "1" * 50 + "." + "9" * 10)
@example(pa.decimal128(30, 6), "1.0000000000000000000")
@example(pa.decimal128(30, 6), "1e23")
@example(pa.decimal128(30, 6), "1e24")
@example(pa.decimal128(30, 6), "0e99999999999")
@example(pa.decimal128(3, 3), "0.999")
def test_decimals_are_exact(dtype: pa.DataType, text: str) -> None:
    """As Python's decimal has it: all digits, or a refusal; never rounded."""
    found = one(dtype, text)
    plain = text.strip('"')
    try:
        value = None if text == "null" else Decimal(plain)
        json.loads(text)
    except (InvalidOperation, ValueError):
        assert "not a valid decimal" in found or "not JSON" in found
        return
    if value is not None and not value.is_finite():
        assert "not a valid decimal" in found
    elif value is None:
        assert found is None
    else:
        digits, exponent = "".join(map(str, value.as_tuple().digits)), value.as_tuple().exponent
        assert isinstance(exponent, int)
        shift = exponent + dtype.scale
        dropped = digits[shift:] if shift < 0 else ""
        fits = not dropped.strip("0") and len(digits.lstrip("0")) + shift <= dtype.precision
        if fits or not value:
            assert found == value
        else:
            assert "is not a valid decimal" in found


TIME_TEXTS = st.one_of(
    st.datetimes().map(str),
    st.datetimes().map(lambda time: time.isoformat()),
    st.dates().map(str),
    st.builds(
        lambda date, mark, clock, fraction, zone: date + mark + clock + fraction + zone,
        st.sampled_from(["2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "0000-01-01",
                         "9999-12-31", "1677-09-21", "2262-04-11", "2024-13-01", "2024-00-10",
                         "2024-04-31", "2024-1-1", "-2024-01-01"]),
        st.sampled_from(["", "T", " ", "t", "  "]),
        st.sampled_from(["", "00", "23", "24", "10:30", "10:60", "23:59:59", "00:12:44", "10:3",
                         "23:47:16", "1030", "10:30:60"]),
        st.sampled_from(["", ".5", ".145224191", ".854775808", ".854775807", ".", ".123456",
                         ".123", ".000000000", ".1234567890"]),
        st.sampled_from(["", "Z", "z", "+00", "-0230", "+02:30", "+24", "+23:59", "+0260", "+2",
                         " Z", "+02:3", "Z "]),
    ),
    st.text("0123456789-:T Z.", max_size=22),
)  # fmt: skip


@examples(4.0)
@given(
    st.sampled_from(
        [pa.date32(), pa.date64(), *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
         *(pa.timestamp(unit, zone) for unit in ("s", "ns") for zone in ("UTC", "Asia/Tokyo"))]
    ),
    TIME_TEXTS,
)  # fmt: skip
@example(pa.timestamp("ns"), "1677-09-21T00:12:42.145224191")
@example(pa.timestamp("ns"), "2262-04-11T23:47:16.854775807")
@example(pa.timestamp("ns"), "2262-04-11T23:47:16.854775808")
def test_times_are_read_as_from_files(dtype: pa.DataType, text: str) -> None:
    both(dtype, json.dumps(text))


@pytest.mark.parametrize(
    ("dtype", "text", "expected"),
    [
        (pa.timestamp("ms"), "1700000000123", 1700000000123),
        (pa.timestamp("s", "UTC"), "-1", -1),
        (pa.date32(), "19000", 19000),
        (pa.date64(), "86400000", 86400000),
        (pa.date64(), "86400001", "86400001 is not a valid date64"),
        (pa.time32("s"), "86399", 86399),
        (pa.time32("s"), "86400", "86400 is not a valid time32[s]"),
        (pa.time64("us"), '"01:02:03.000004"', 3723000004),
        (pa.time32("s"), '"01:02:03.5"', '"01:02:03.5" is not a valid time32[s]'),
        (pa.time32("ms"), '"23:59"', 86340000),
        (pa.time32("ms"), '"24:00"', '"24:00" is not a valid time32[ms]'),
        (pa.duration("us"), "-5", -5),
        (pa.duration("us"), "1.5", "1.5 is not a valid duration[us]"),
        (pa.timestamp("ms"), "1e3", "1e3 is not a valid timestamp[ms]"),
        (pa.timestamp("ms"), "9" * 20, f"{'9' * 20} is not a valid timestamp[ms]"),
    ],
)
def test_times_are_numbers_of_their_unit(dtype: pa.DataType, text: str, expected: Any) -> None:
    schema = pa.schema([("a", dtype)])
    found = JsonDecoder(schema).decode(pa.array([f'{{"a": {text}}}']))
    if isinstance(expected, str):
        assert found.bad[0].reason == f"column 'a': {expected}"
    else:
        width = pa.int32() if dtype.bit_width == 32 else pa.int64()
        assert found.batch["a"].view(width).to_pylist() == [expected]


@examples()
@given(st.binary(max_size=20), st.text("ABab09+/=-_ ", max_size=9))
def test_bytes_are_base64(data: bytes, text: str) -> None:
    assert one(pa.binary(), json.dumps(base64.b64encode(data).decode())) == data
    try:
        expected: Any = base64.b64decode(text, validate=True)
    except ValueError:
        expected = None
    if expected is None or len(base64.b64encode(expected)) < len(text):  # Python takes more padding
        expected = f"column 'a': {json.dumps(text)} is not a valid large_binary"
    assert one(pa.large_binary(), json.dumps(text)) == expected
