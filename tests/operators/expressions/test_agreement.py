"""The pyarrow chain and DataFusion agree on generated expressions and batches."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any

import datafusion
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric.errors import ExpressionError, PlanError
from fabric.operators.expressions.arrow import compile_expr
from fabric.operators.expressions.datafusion import to_datafusion
from fabric.operators.expressions.errors import as_fabric
from fabric.plan.expr import Call, Case, Cast, Column, Expr, IsIn, Literal
from fabric.plan.schema import type_of

INT, FLOAT, TEXT, BOOL, TIME, NUMBER = "int", "float", "text", "bool", "time", "number"

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-128, 127),
    pa.int32(): st.sampled_from([0, 1, -1, 7, 2**31 - 1, -(2**31)]),
    pa.int64(): st.sampled_from([0, 1, -3, 10, 2**63 - 1, -(2**63)]),
    pa.uint32(): st.sampled_from([0, 1, 2**32 - 1]),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, -2.5, float("nan"), float("inf"), 1e300]),
    pa.float32(): st.sampled_from([0.0, 0.5, float("nan"), -float("inf"), 3.0]),
    pa.decimal128(9, 2): st.sampled_from(
        [Decimal("0.00"), Decimal("1.25"), Decimal("-9999999.99")]
    ),
    pa.bool_(): st.booleans(),
    pa.string(): st.sampled_from(["", "a", " b ", "ß", "12", "2024-01-31", "-1.5", "NaN"]),
    pa.timestamp("us"): st.sampled_from(
        [datetime(2024, 1, 31, 10), datetime(1969, 12, 31, 23, 59)]
    ),
    pa.timestamp("us", "UTC"): st.sampled_from([datetime(2024, 2, 29, 23), datetime(1970, 1, 1)]),
    pa.date32(): st.sampled_from([date(2024, 2, 29), date(1969, 12, 31)]),
}
COLUMNS: dict[str, list[str]] = {
    INT: ["int8", "int32", "int64", "uint32"],
    FLOAT: ["double", "float"],
    NUMBER: ["int8", "int32", "int64", "uint32", "double", "float", "decimal128(9, 2)"],
    TEXT: ["string", "dictionary", "view"],
    BOOL: ["bool"],
    TIME: ["timestamp[us]", "timestamp[us, tz=UTC]", "date32[day]"],
}
A_OR_B, MARKED = Literal("[ab]", pa.string()), Literal("<$0>", pa.string())
LITERALS = {
    INT: [pa.int8(), pa.int32(), pa.int64()],
    FLOAT: [pa.float64(), pa.float32()],
    NUMBER: [pa.int32(), pa.int64(), pa.float64(), pa.decimal128(9, 2)],
    TEXT: [pa.string()],
    BOOL: [pa.bool_()],
    TIME: [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date32()],
}


@st.composite
def batches(draw: Any) -> pa.RecordBatch:
    """A few rows of every type, nulls among them."""
    n_rows = draw(st.integers(1, 5))

    def values(dtype: pa.DataType) -> pa.Array:
        one = st.none() | VALUES[dtype]
        return pa.array(draw(st.lists(one, min_size=n_rows, max_size=n_rows)), dtype)

    columns = {str(dtype): values(dtype) for dtype in VALUES}
    columns["dictionary"] = values(pa.string()).dictionary_encode()
    columns["view"] = values(pa.string()).cast(pa.string_view())
    return pa.record_batch(columns)


def constants(kind: str) -> st.SearchStrategy[Literal]:
    """A constant that may be null."""
    return st.sampled_from(LITERALS[kind]).flatmap(
        lambda dtype: (st.none() | VALUES[dtype]).map(lambda value: Literal(value, dtype))
    )


def leaf(kind: str) -> st.SearchStrategy[Expr]:
    """A column or a constant."""
    return st.sampled_from(COLUMNS[kind]).map(Column) | constants(kind)


def calls(kind: str, below: Callable[[str], st.SearchStrategy[Expr]]) -> st.SearchStrategy[Expr]:
    """A function that returns `kind`, over parts of suitable kinds."""

    def call(names: str, *kinds: str) -> st.SearchStrategy[Expr]:
        parts = st.tuples(*(below(each) for each in kinds))
        return st.builds(Call, st.sampled_from(names.split()), parts)

    def fixed(name: str, constant: Expr, *kinds: str, at: int = 1) -> st.SearchStrategy[Expr]:
        parts = st.tuples(*(below(each) for each in kinds))
        return parts.map(lambda args: Call(name, (*args[:at], constant, *args[at:])))

    case = st.builds(
        lambda test, value, otherwise: Case(((test, value),), otherwise),
        below(BOOL), below(kind), below(kind),
    )  # fmt: skip
    common = [case, call("coalesce", kind, kind)]
    made = {
        INT: [
            call("add subtract multiply floor_divide modulo", INT, INT),
            call("negate abs bitwise_not bit_count", INT),
            call("bitwise_and bitwise_xor shift_left shift_right_unsigned pmod", INT, INT),
            call("length ascii", TEXT),
            call("instr levenshtein hash", TEXT, TEXT),
            call("year month day hour minute second day_of_week", TIME),
            st.builds(Cast, below(NUMBER), st.just(pa.int32()), st.booleans()),
        ],
        FLOAT: [
            call("add subtract multiply divide modulo", FLOAT, FLOAT),
            call("divide", INT, INT),
            call("negate abs sqrt sign", FLOAT),
            fixed("round", Literal(1, pa.int32()), FLOAT),
            st.builds(Cast, below(NUMBER), st.sampled_from([pa.float32(), pa.float64()])),
        ],
        NUMBER: [
            call("add subtract multiply divide least", NUMBER, NUMBER), call("floor ceil", NUMBER)
        ],
        TEXT: [
            call("upper lower trim ltrim rtrim initcap reverse hex md5", TEXT),
            call("concat concat_ws greatest", TEXT, TEXT, TEXT),
            below(TEXT).map(lambda text: Call("regexp_replace", (text, A_OR_B, MARKED))),
            call("replace", TEXT, TEXT, TEXT),
            call("substring", TEXT, INT).filter(lambda e: e.args[1] != Literal(None, pa.int64())),
            st.builds(Cast, below(NUMBER) | below(TIME) | below(BOOL), st.just(pa.string())),
        ],
        TIME: [
            fixed("date_trunc", Literal("month", pa.string()), TIME, at=0),
            st.builds(
                lambda value, n: Call("add_interval", (value, n, Literal("month", pa.string()))),
                below(TIME), below(INT),
            ),
            st.builds(Cast, below(TEXT), st.just(pa.timestamp("us")), st.booleans()),
        ],
        BOOL: [
            call("eq ne lt le gt ge eq_null_safe", NUMBER, NUMBER),
            call("eq ne lt le gt ge eq_null_safe", TEXT, TEXT),
            call("eq lt ge eq_null_safe", TIME, TIME),
            call("and or", BOOL, BOOL),
            call("not is_null is_not_null", BOOL),
            call("is_null", TEXT),
            call("is_nan", FLOAT),
            call("contains starts_with ends_with", TEXT, TEXT),
            fixed("like", Literal("%a_", pa.string()), TEXT),
            st.builds(
                lambda value, values: IsIn(value, tuple(values)),
                below(NUMBER),
                st.lists(constants(NUMBER), min_size=1, max_size=3),
            ),
        ],
    }  # fmt: skip
    return st.one_of(*common, *made[kind])


@cache
def exprs(kind: str, depth: int) -> st.SearchStrategy[Expr]:
    if depth == 0:
        return leaf(kind)
    return leaf(kind) | calls(kind, lambda each: exprs(each, depth - 1))


def outcome(evaluate: Callable[[], pa.Array]) -> tuple[str, Any]:
    """The values, written so that equal ones look alike; or that a value broke the expression."""
    try:
        answer = evaluate()
    except Exception as error:
        if isinstance(as_fabric(error), ExpressionError):
            return "error", None
        raise
    return str(answer.type), [repr(value) for value in answer.to_pylist()]


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    batch=batches(),
    expr=st.sampled_from([INT, FLOAT, NUMBER, TEXT, TIME, BOOL]).flatmap(lambda k: exprs(k, 3)),
)
def test_arrow_and_datafusion_agree(batch: pa.RecordBatch, expr: Expr) -> None:
    try:
        type_of(expr, batch.schema)
    except PlanError:
        return
    frame = datafusion.SessionContext().from_arrow(pa.Table.from_batches([batch]))

    def by_datafusion() -> pa.Array:
        lowered = to_datafusion(expr, batch.schema).alias("out")
        return frame.select(lowered).to_arrow_table()["out"].combine_chunks()

    by_arrow = outcome(lambda: compile_expr(expr, batch.schema)(batch))
    assert outcome(by_datafusion) == by_arrow
    assert by_arrow[0] in ("error", str(type_of(expr, batch.schema)))
