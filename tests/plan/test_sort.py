"""What the phases of a sort put out, and that they travel."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.plan.check import check
from fabric.plan.codec import decode, encode
from fabric.plan.expr import Column, SortKey
from fabric.plan.nodes import Plan, Scan, Sort, StageInput
from fabric.plan.nodes.sort import range_column
from fabric.plan.schema import schema_of
from fabric.plan.sources import FileSource

SCHEMA = pa.schema([("s", pa.dictionary(pa.int32(), pa.string())), ("__range", pa.int64())])
SOURCE = StageInput(0, SCHEMA)
SCAN = Scan(FileSource("parquet", ("x",)), SCHEMA)
KEYS = (SortKey(Column("s"), descending=True),)
SAMPLE = Sort(SOURCE, KEYS, "sample")
PLACE = Sort(SOURCE, KEYS, "place", StageInput(1, schema_of(SAMPLE)), 5)


def test_columns() -> None:
    assert schema_of(Sort(SOURCE, KEYS)) == SCHEMA
    assert schema_of(SAMPLE) == pa.schema([("0", pa.string()), ("rows", pa.int64())])
    assert schema_of(PLACE) == SCHEMA.append(pa.field("__range_", pa.int32()))
    assert range_column(pa.schema([("a", pa.int8())])) == "__range"


@pytest.mark.parametrize("node", [SAMPLE, PLACE], ids=["sample", "place"])
def test_they_travel(node: Sort) -> None:
    assert decode(encode(Plan(node))).root == node


def test_a_place_keeps_both_inputs() -> None:
    assert PLACE.children == (PLACE.input, PLACE.samples)
    assert PLACE.with_children(PLACE.children) is PLACE
    assert PLACE.with_children((SOURCE, SOURCE)).children == (SOURCE, SOURCE)


def test_a_logical_plan_has_none() -> None:
    with pytest.raises(PlanError, match="phase"):
        check(Plan(Sort(SCAN, KEYS, "sample")))
