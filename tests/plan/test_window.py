"""Window nodes: names and types of the output, and every refusal with its mended line."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.plan.codec import decode, encode
from fabric.plan.expr import Agg, Alias, Column, Expr, Frame, Literal, Over, SortKey
from fabric.plan.nodes import Node, Plan, StageInput, Window
from fabric.plan.schema import schema_of

SOURCE = StageInput(
    0, pa.schema([("k", pa.string()), ("t", pa.int64()), ("v", pa.decimal128(10, 2))])
)
K, T, V = Column("k"), Column("t"), Column("v")
BY_TIME = (SortKey(T),)


def number(value: int) -> Literal:
    return Literal(value, pa.int32())


def one(agg: Agg, order: tuple[SortKey, ...] = BY_TIME, frame: Frame | None = None) -> Window:
    return Window(SOURCE, (Alias(Over(agg, (K,), order, frame), "w"),))


@pytest.mark.parametrize(
    ("agg", "dtype"),
    [
        (Agg("row_number", None), pa.int32()),
        (Agg("rank", None), pa.int32()),
        (Agg("percent_rank", None), pa.float64()),
        (Agg("ntile", None, (number(4),)), pa.int32()),
        (Agg("lag", V), pa.decimal128(10, 2)),
        (Agg("lead", T, (number(2), number(0))), pa.int64()),
        (Agg("first_value", K), pa.string()),
        (Agg("nth_value", K, (number(2), Literal(True, pa.bool_()))), pa.string()),
        (Agg("sum", V), pa.decimal128(20, 2)),
        (Agg("count", None), pa.int64()),
        (Agg("corr", T, (V,)), pa.float64()),
    ],
)
def test_the_column_comes_after_the_input(agg: Agg, dtype: pa.DataType) -> None:
    schema = schema_of(one(agg))
    assert schema.names == ["k", "t", "v", "w"]
    assert schema.field("w").type == dtype


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (one(Agg("row_number", None), ()), "row_number needs an order: .over"),
        (
            one(Agg("ntile", None, (number(0),))),
            "ntile needs a constant whole number of at least 1",
        ),
        (one(Agg("lag", V, (K,))), "lag needs a constant whole number of rows"),
        (
            one(Agg("lag", V, (number(1), Literal("x", pa.string())))),
            "lag can't put a string among",
        ),
        (one(Agg("rank", None), frame=Frame("rows", 0, 1)), "rank takes no frame"),
        (one(Agg("rank", V)), "rank takes no column"),
        (one(Agg("lead", None)), "lead needs a column"),
        (one(Agg("row_numbr", None)), r"there is no window function 'row_numbr'.*row_number\(\)"),
        (one(Agg("sum", K)), "sum takes numbers"),
        (one(Agg("sum", T), frame=Frame("rows", 1, 0)), r"ends before it starts.*rows=\(0, 1\)"),
        (one(Agg("sum", T), (), Frame("rows", -1, 0)), "a frame needs an order"),
        (
            one(Agg("sum", T), (SortKey(K),), Frame("range", -1, 0)),
            "exactly one order key, a number",
        ),
        (Window(SOURCE, ()), "a window needs a function"),
        (Window(SOURCE, (Alias(Agg("sum", T), "w"),)), "a window node takes window functions only"),
        (Window(SOURCE, (Alias(Over(Agg("sum", T)), "t"),)), r'column "t" already.*"t_2"'),
        (
            Window(
                SOURCE, (Alias(Over(Agg("sum", T), (K,)), "a"), Alias(Over(Agg("sum", T)), "b"))
            ),
            "different partitions",
        ),
    ],
)
def test_refusals(node: Node, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        schema_of(node)


def test_it_reads_as_python() -> None:
    keys = (SortKey(T), SortKey(V, descending=True, nulls_last=True))
    exprs: tuple[Expr, ...] = (
        Alias(Over(Agg("sum", T), (K,), keys, Frame("rows", -2, 0)), "w"),
        Alias(Over(Agg("lag", T, (number(1),)), (K,), (SortKey(T),)), "x"),
    )
    assert Window(SOURCE, exprs).text() == (
        '.with_columns(col("t").sum().over("k", order_by=["t", col("v").desc()], rows=(-2, 0))'
        '.alias("w"), col("t").lag(1).over("k", order_by="t").alias("x"))'
    )


def test_it_travels() -> None:
    frames = (None, Frame("rows", None, 0), Frame("range", -5, 5), Frame("rows", 0, None))
    for frame in frames:
        node = one(Agg("first_value", V, (Literal(True, pa.bool_()),)), frame=frame)
        assert decode(encode(Plan(node))).root == node
