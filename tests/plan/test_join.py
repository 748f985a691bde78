"""Joins of every kind: output columns, merged keys, conditions, refusals."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.plan.codec import decode, encode
from fabric.plan.expr import Call, Column, Expr, Udf
from fabric.plan.nodes import Join, JoinHow, Plan, Select, StageInput
from fabric.plan.nodes.join import condition_columns, output_columns
from fabric.plan.schema import schema_of

LEFT = StageInput(0, pa.schema([("k", pa.int32()), ("v", pa.int64())]))
RIGHT = StageInput(1, pa.schema([("v", pa.int64()), ("k", pa.int64()), ("w", pa.string())]))
K = (Column("k"),)
NEAR: Expr = Call("lt", (Column("v"), Column("v_right")))


def joined(how: JoinHow, condition: Expr | None = None) -> Join:
    keys = () if how == "cross" else K
    return Join(LEFT, RIGHT, keys, keys, how, condition=condition)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", {"k": pa.int32(), "v": pa.int64(), "v_right": pa.int64(), "w": pa.string()}),
        ("left", {"k": pa.int32(), "v": pa.int64(), "v_right": pa.int64(), "w": pa.string()}),
        ("right", {"k": pa.int64(), "v": pa.int64(), "v_right": pa.int64(), "w": pa.string()}),
        ("full", {"k": pa.int64(), "v": pa.int64(), "v_right": pa.int64(), "w": pa.string()}),
        ("semi", {"k": pa.int32(), "v": pa.int64()}),
        ("anti", {"k": pa.int32(), "v": pa.int64()}),
        (
            "cross",
            {
                "k": pa.int32(),
                "v": pa.int64(),
                "v_right": pa.int64(),
                "k_right": pa.int64(),
                "w": pa.string(),
            },
        ),
    ],
)
def test_what_it_puts_out(how: JoinHow, expected: dict[str, pa.DataType]) -> None:
    assert schema_of(joined(how)) == pa.schema(expected)


def test_where_a_merged_key_comes_from() -> None:
    def key(how: JoinHow) -> tuple[str, bool, str | None]:
        column = output_columns(joined(how), schema_of(LEFT), schema_of(RIGHT))[0]
        return column.source, column.right, column.merged

    assert key("left") == ("k", False, None)
    assert key("right") == ("k", True, None)
    assert key("full") == ("k", False, "k")


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_a_condition_reads_the_columns_of_the_inner_join(how: JoinHow) -> None:
    node = joined(how, NEAR)
    schema_of(node)
    columns = condition_columns(node, schema_of(LEFT), schema_of(RIGHT))
    assert [column.name for column in columns] == ["k", "v", "v_right", "w"]


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            joined("cross", NEAR),
            r'neither keys nor a condition; write: .join\(other, how="cross"\)',
        ),
        (Join(LEFT, RIGHT, (), ()), "as many keys on both sides, at least one; got 0 left and 0"),
        (joined("inner", Column("w")), "the condition of a join must be true or false, got string"),
        (joined("inner", Call("lt", (Column("v"), Column("v_rigth")))), 'did you mean "v_right"'),
    ],
)
def test_refusals(node: Join, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        schema_of(node)


def test_it_reads_as_python_and_travels() -> None:
    node = Join(LEFT, RIGHT, (), (), "full", condition=NEAR)
    assert node.text() == '.join(other, how="full", where=col("v") < col("v_right"))'
    assert decode(encode(Plan(node))).root == node
    assert decode(encode(Plan(joined("right", NEAR)))).root == joined("right", NEAR)


def test_a_function_travels_with_its_code_and_its_mac() -> None:
    udf = Udf("twice", (Column("v"),), pa.int64(), "arrow", b"code", b"mac")
    node = Select(LEFT, (udf,))
    assert decode(encode(Plan(node))).root == node
    assert node.text() == '.select(twice(col("v")))'
    assert "code" not in repr(udf)
    with pytest.raises(PlanError, match='no column "vv"'):
        schema_of(Select(LEFT, (Udf("twice", (Column("vv"),), pa.int64(), "arrow", b""),)))
