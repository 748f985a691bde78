"""Names of list and struct types."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.clients.dataframe.literal import to_dtype
from fabric.errors import PlanError


@pytest.mark.parametrize(
    "dtype",
    [
        pa.list_(pa.int64()),
        pa.list_(pa.list_(pa.decimal128(10, 2))),
        pa.struct([("a", pa.int32()), ("Bc", pa.list_(pa.timestamp("us", "UTC")))]),
        pa.list_(pa.struct([("a", pa.string()), ("s", pa.struct([("x", pa.float64())]))])),
    ],
)
def test_a_type_reads_as_it_is_written(dtype: pa.DataType) -> None:
    assert to_dtype(str(dtype)) == dtype


def test_sparks_names() -> None:
    assert to_dtype("array<bigint>") == pa.list_(pa.int64())
    assert to_dtype("struct<a:int,b:array<string>>") == pa.struct(
        [("a", pa.int32()), ("b", pa.list_(pa.string()))]
    )


@pytest.mark.parametrize("name", ["list<>", "list<nothing>", "struct<a>", "list<int64"])
def test_what_is_no_type_is_refused(name: str) -> None:
    with pytest.raises(PlanError, match="is not a valid type"):
        to_dtype(name)
