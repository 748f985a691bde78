"""What differs between two schemas, in words."""

import pyarrow as pa
import pytest

from fabric.io.schemas import checked_schema, difference

BASE = pa.schema([("a", pa.int64()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ([("a", pa.int64())], "it has no column 'b'"),
        ([*BASE, ("c", pa.int8())], "it has another column 'c'"),
        ([("a", pa.int32()), ("b", pa.string())], "column 'a' is int32, expected int64"),
        ([("b", pa.string()), ("a", pa.int64())], "its columns are in another order: b, a"),
        (list(BASE), ""),
        ([pa.field("a", pa.int64(), nullable=False, metadata={"k": "v"}), BASE.field(1)], ""),
    ],
)
def test_difference(other, text):
    assert difference(BASE, checked_schema(pa.schema(other), "other")) == text


def test_only_names_and_types_are_left():
    strict = pa.schema([pa.field("a", pa.int8(), nullable=False, metadata={"k": "v"})], {"m": "n"})
    plain = checked_schema(strict, "x")
    assert plain.equals(pa.schema([("a", pa.int8())]), check_metadata=True)
