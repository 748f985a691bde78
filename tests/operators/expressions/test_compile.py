"""The compiler: what it refuses, how deep it goes, what stays untouched."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import datafusion
import pyarrow as pa
import pytest

from fabric.errors import ExpressionError, PlanError
from fabric.operators.expressions.arrow import compile_expr
from fabric.operators.expressions.datafusion import to_datafusion
from fabric.operators.expressions.errors import as_fabric
from fabric.plan.expr import Agg, Alias, Call, Case, Cast, Column, Expr, Literal

BATCH = pa.record_batch({"a": [1, 2, 3], "f": [1.0, 2.0, 3.0], "s": ["x", "y", None]})
ONE, HALF = Literal(1, pa.int64()), Literal(0.5, pa.float64())
EQUAL_ONE = Call("eq", (Column("a"), ONE))
DEPTH = 198


def both(expr: Expr, batch: pa.RecordBatch = BATCH) -> list[object]:
    """The values, which both evaluators agree on."""
    frame = datafusion.SessionContext().from_arrow(pa.Table.from_batches([batch]))
    table = frame.select(to_datafusion(expr, batch.schema).alias("out")).to_arrow_table()
    values = compile_expr(expr, batch.schema)(batch).to_pylist()
    assert table["out"].to_pylist() == values
    return values


def nested(start: Expr, wrap: Callable[[Expr], Expr], times: int = DEPTH) -> Expr:
    for _ in range(times):
        start = wrap(start)
    return start


def one_or(expr: Expr) -> Expr:
    return Case(((EQUAL_ONE, ONE),), Call("multiply", (ONE, expr)))


DEEP = {
    "left": (nested(Column("a"), lambda e: Call("add", (e, ONE))), [199, 200, 201]),
    "right": (nested(Column("a"), lambda e: Call("add", (ONE, e))), [199, 200, 201]),
    "native": (nested(Column("f"), lambda e: Call("add", (e, HALF))), [100.0, 101.0, 102.0]),
    "or": (nested(EQUAL_ONE, lambda e: Call("or", (e, EQUAL_ONE))), [True, False, False]),
    "case": (nested(Column("a"), lambda e: Case(((EQUAL_ONE, ONE),), e)), [1, 2, 3]),
    "lazy": (nested(Column("a"), one_or, DEPTH // 2), [1, 2, 3]),
}


@pytest.mark.parametrize("name", DEEP)
def test_the_deepest_expression_works(name: str) -> None:
    expr, values = DEEP[name]
    assert both(expr) == values


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (Column("b"), "no column"),
        (Call("nothing", ()), "no function"),
        (Call("add", (Column("s"), ONE)), r"\+ takes two numbers"),
        (Agg("sum", Column("a")), "needs a group_by"),
        (Cast(Column("a"), pa.date32()), "no cast from int64 to date32"),
        (
            Call("to_timestamp", (Column("s"), Literal("yyyy-QQ", pa.string()))),
            "knows no 'QQ' in the pattern 'yyyy-QQ'",
        ),
        (
            Call("to_timestamp", (Column("s"), Literal("hh:mm", pa.string()))),
            "h and a need each other",
        ),
        (
            Call("to_timestamp", (Column("s"), Literal("MM MM", pa.string()))),
            "names the month twice",
        ),
        (
            Call("to_timestamp", (Column("s"), Literal("[MM]", pa.string()))),
            "'\\[' is not supported",
        ),
        (
            Call("round", (Column("f"), Literal(1 << 40, pa.int64()))),
            "argument 2 is not a constant that fits int32",
        ),
    ],
)
def test_refusals(expr: Expr, message: str) -> None:
    for compile_ in (compile_expr, to_datafusion):
        with pytest.raises(PlanError, match=message):
            compile_(expr, BATCH.schema)


def test_columns_are_passed_on_without_a_copy() -> None:
    passed = compile_expr(Alias(Column("s"), "t"), BATCH.schema)(BATCH)
    assert passed.buffers()[2].address == BATCH.column(2).buffers()[2].address


def test_slices_and_names() -> None:
    name = 'a "b".c\\'
    batch = BATCH.rename_columns([name, "f", "s"]).slice(1, 1)
    assert both(Call("add", (Column(name), ONE)), batch) == [3]


def test_other_names_in_the_data_frame() -> None:
    """Errors go on to use the user's names."""
    frame = datafusion.SessionContext().from_pydict({"c0": [1], "c1": [2.0], "c2": ["x"]})
    zero = Call("divide", (Column("a"), Literal(0, pa.int64())))
    lowered = to_datafusion(zero, BATCH.schema, ["c0", "c1", "c2"])
    with pytest.raises(Exception, match="division") as caught:
        frame.select(lowered).to_arrow_table()
    assert as_fabric(caught.value).message == 'division by zero in col("a") / lit(0, "int64")'


def test_the_message_names_the_innermost_expression() -> None:
    inner = Call("multiply", (Column("a"), Literal(1 << 62, pa.int64())))
    outer = Call("gt", (Call("add", (inner, ONE)), ONE))
    with pytest.raises(ExpressionError) as caught:
        compile_expr(outer, BATCH.schema)(BATCH)
    assert str(caught.value) == f'overflow in col("a") * {1 << 62}'


def test_one_compiled_form_serves_many_threads() -> None:
    quotient = Call("divide", (ONE, Column("a")))
    guarded = compile_expr(
        Case(((Call("ne", (Column("a"), Literal(0, pa.int64()))), quotient),), HALF),
        BATCH.schema,
    )
    batches = [
        pa.record_batch({"a": [n % 3, 1, 2], "f": [0.0] * 3, "s": [""] * 3}) for n in range(200)
    ]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(guarded, batches))
    firsts = {0: 0.5, 1: 1.0, 2: 0.5}
    assert [a.to_pylist() for a in answers] == [[firsts[n % 3], 1.0, 0.5] for n in range(200)]
