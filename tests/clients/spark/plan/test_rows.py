from __future__ import annotations

import datetime
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_frames import scan

from fabric.clients.spark.plan.rows import cast_back
from fabric.clients.spark.types import arrow_schema, conform, spark_schema
from fabric.errors import DataError
from fabric.plan.nodes import Node
from tests.support.arrays import DECIMALS, FLAT, examples, values

WHOLE = {
    pa.timestamp("ns"): 1000, pa.duration("ns"): 1000, pa.time64("ns"): 1000,
}  # fmt: skip
"""What values must be multiples of: Spark counts microseconds."""
NESTED = [
    pa.list_(pa.uint8()), pa.large_list(pa.string()), pa.list_view(pa.int32()),
    pa.large_list_view(pa.large_string()), pa.list_(pa.int32(), 2), pa.list_(pa.list_(pa.uint64())),
    pa.struct([("A", pa.uint16()), ("a", pa.large_string()), ("x.y", pa.date64())]),
    pa.map_(pa.string(), pa.uint8()), pa.list_(pa.struct([("f", pa.float16())])),
]  # fmt: skip
FITTING = [
    *(t for t in FLAT if t not in (DECIMALS[3], DECIMALS[4], pa.month_day_nano_interval())),
    *NESTED,
]


def examples_of(dtype: pa.DataType) -> pa.Array:
    if dtype in WHOLE:
        return pa.array([None, 0, WHOLE[dtype] * 7], pa.int64()).cast(dtype)
    if pa.types.is_struct(dtype):
        return pa.array([None, {"A": 1, "a": "", "x.y": datetime.date(2020, 1, 1)}, {}], dtype)
    return pa.array([None, *_some(dtype)], dtype)


def _some(dtype: pa.DataType) -> list[object]:
    """Two values of a type, the same in each run."""
    found: list[object] = []

    @examples(0.2)
    @given(values(dtype))
    def look(value: object) -> None:
        if value is not None and len(found) < 2:
            found.append(value)

    look()
    return [*found, None, None][:2]


def test_every_type_there_and_back(on_spark: Callable[[Node], pa.Table]) -> None:
    columns = {f"{i} {dtype}": examples_of(dtype) for i, dtype in enumerate(FITTING)}
    columns["dictionary"] = pa.array(["a", None, "a"]).dictionary_encode()
    columns["small"] = columns["dictionary"].cast(pa.dictionary(pa.int8(), pa.large_string()))
    columns["runs"] = pc.run_end_encode(pa.array(["a", "a", None]), pa.int16())
    columns["zone"] = pa.array([1, None, 3], pa.timestamp("us", "Europe/Berlin"))
    table = pa.table(columns)
    found = on_spark(scan(table))
    assert repr(found.to_pylist()) == repr(table.to_pylist())


@examples()
@given(st.data())
def test_lists_of_every_layout(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([t for t in NESTED if hasattr(t, "value_type")]))
    drawn = data.draw(st.lists(values(dtype), max_size=8))
    array = pa.array(drawn, dtype).slice(data.draw(st.integers(0, len(drawn))))
    batch = pa.record_batch([array], names=["x"])
    there = conform(batch, arrow_schema(spark_schema(batch.schema)))
    back = cast_back(there.column(0), dtype, "x")
    back.validate(full=True)
    assert back.type == dtype
    assert repr(back.to_pylist()) == repr(array.to_pylist())


def test_a_value_that_does_not_fit() -> None:
    with pytest.raises(
        DataError, match="column 'n' came from Spark as int16 and does not fit uint8"
    ):
        cast_back(pa.array([300], pa.int16()), pa.uint8(), "n")
    with pytest.raises(DataError, match="a list has not 2 items"):
        cast_back(pa.array([[1]], pa.list_(pa.int32())), pa.list_(pa.int32(), 2), "n")


def test_many_rows_come_in_as_many_partitions_as_cores_want(
    on_spark: Callable[[Node], pa.Table],
) -> None:
    table = pa.table({"a": np.arange(100_000), "f": np.linspace(0, 1, 100_000)})
    found = on_spark(scan(table))
    assert found.sort_by("a").equals(table)
