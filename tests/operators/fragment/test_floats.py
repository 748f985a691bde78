"""One NaN, one zero, also inside lists and structs."""

import math
import struct

import datafusion
import pyarrow as pa
import pytest

from fabric.operators.fragment.floats import has_floats, normalised
from fabric.plan.expr import Agg, Alias, Column, Over
from fabric.plan.nodes import Aggregate, Distinct, Window

ODD = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]  # another NaN
F64 = pa.float64()
LISTS = [[0.0, None], [-0.0, None], [math.nan], [ODD], None, [], [1.5]]
TYPES = [
    pa.list_(F64), pa.large_list(F64), pa.list_(pa.float32()),
    pa.list_view(F64), pa.list_(pa.struct([("x", F64)])), pa.struct([("x", pa.list_(F64))]),
]  # fmt: skip


def nested(dtype):
    """`LISTS` in `dtype`, as a slice."""
    if pa.types.is_struct(dtype):
        values = [None if one is None else {"x": one} for one in LISTS]
    elif pa.types.is_struct(dtype.value_type):
        values = [None if one is None else [{"x": x} for x in one] for one in LISTS]
    else:
        values = LISTS
    return pa.array([values[0], *values], dtype).slice(1)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_inside_nested_values(dtype):
    array = nested(dtype)
    frame = datafusion.SessionContext().from_arrow(pa.table({"a": array}))
    found = frame.select(normalised(datafusion.col("a"), dtype).alias("a")).to_arrow_table()["a"]
    assert found.type.equals(dtype)
    assert str(found.to_pylist()) == str(array.to_pylist()).replace("-0.0", "0.0")


def test_others_stay_as_they_are():
    column = datafusion.col("a")
    for dtype in (pa.int32(), pa.string(), pa.list_(pa.string()), pa.struct([("x", pa.date32())])):
        assert normalised(column, dtype) is column
        assert not has_floats(dtype)


def test_they_are_one_group_one_row_one_partition_and_one_value(run, edge):
    table = pa.table({"a": nested(pa.list_(F64))})
    count = Agg("count", None)
    grouped = run(Aggregate(edge(0, table), (Column("a"),), (Alias(count, "n"),)), table)
    assert sorted(grouped["n"].to_pylist()) == [1, 1, 1, 2, 2]
    assert run(Distinct(edge(0, table)), table).num_rows == 5
    over = Alias(Over(count, (Column("a"),)), "n")
    counted = run(Window(edge(0, table), (over,)), table)["n"].to_pylist()
    assert sorted(counted) == [1, 1, 1, 2, 2, 2, 2]
    different = Alias(Agg("count_distinct", Column("a")), "n")
    assert run(Aggregate(edge(0, table), (), (different,)), table)["n"].to_pylist() == [4]
