"""Explode nodes: names and types of the output, and the refusals."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.plan.codec import decode, encode
from fabric.plan.nodes import Explode, Plan, StageInput
from fabric.plan.schema import schema_of

STRUCT = pa.struct([("x", pa.int32())])
SOURCE = StageInput(0, pa.schema([("k", pa.string()), ("l", pa.list_(STRUCT)), ("t", pa.int64())]))


@pytest.mark.parametrize(
    "dtype", [pa.list_(pa.int8()), pa.large_list(pa.int8()), pa.list_(pa.int8(), 2)]
)
def test_the_element_takes_the_place_of_the_list(dtype: pa.DataType) -> None:
    source = StageInput(0, pa.schema([("l", dtype), ("t", pa.int64())]))
    assert schema_of(Explode(source, "l")) == pa.schema([("l", pa.int8()), ("t", pa.int64())])


def test_the_position_comes_last() -> None:
    schema = schema_of(Explode(SOURCE, "l", position="i"))
    assert schema.names == ["k", "l", "t", "i"]
    assert schema.types == [pa.string(), STRUCT, pa.int64(), pa.int32()]


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (Explode(SOURCE, "t"), r'explode needs a list, and "t" is int64; write: .explode\("l"\)'),
        (Explode(SOURCE, "li"), 'there is no column "li" here; did you mean "l"'),
        (
            Explode(SOURCE, "l", position="t"),
            r'"t" already; write: .explode\("l", position="t_2"\)',
        ),
    ],
)
def test_refusals(node: Explode, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        schema_of(node)


def test_it_reads_as_python_and_travels() -> None:
    node = Explode(SOURCE, "l", outer=True, position="i")
    assert node.text() == '.explode("l", outer=True, position="i")'
    assert decode(encode(Plan(node))).root == node
