"""The type rules beside what a live Spark 4.3 answered for every pair of types."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.plan.expr import Agg, Column, Literal
from fabric.plan.functions import result_type
from fabric.plan.schema import type_of

ARROW = {
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
    "boolean": pa.bool_(), "binary": pa.binary(),
}  # fmt: skip
UNARY = {
    "floor(x)": "floor",
    "ceil(x)": "ceil",
    "abs(x)": "abs",
    "-x": "negate",
    "isnan(x)": "is_nan",
}
AGGREGATES = {"sum(x)": "sum", "avg(x)": "mean", "min(x)": "min", "count(x)": "count"}


def arrow(name: str) -> pa.DataType:
    if name.startswith("decimal"):
        precision, scale = name[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return ARROW[name]


def answers() -> list[tuple[str, ...]]:
    lines = Path(__file__).with_name("spark_types.txt").read_text().splitlines()
    return [tuple(line.split("\t")) for line in lines if not line.startswith("#")]


def ours(call: str, args: list[pa.DataType]) -> pa.DataType:
    if call in AGGREGATES:
        agg = Agg(AGGREGATES[call], Column("x"))
        return type_of(agg, pa.schema([("x", args[0])]))
    if call.startswith("round(x"):
        digits = call[8:-1]
        literals = [None, Literal(int(digits), pa.int32())] if digits else [None]
        return result_type("round", [*args, pa.int32()][: len(literals)], literals)
    return result_type(UNARY.get(call, call), args)


def stricter(call: str, args: list[str]) -> bool:
    """Where Fabric refuses what Spark casts by itself: strings and dates as something else."""
    mixed_text = "string" in args and set(args) != {"string"}
    text_as_number = args == ["string"] and call not in ("min(x)", "count(x)")
    date_arithmetic = "date" in args and call == "add"
    time_sum = call in ("sum(x)", "avg(x)") and args == ["timestamp"]
    bool_sum = call in ("sum(x)", "avg(x)") and args == ["boolean"]
    return mixed_text or text_as_number or date_arithmetic or time_sum or bool_sum


@pytest.mark.parametrize("answer", answers(), ids=lambda answer: " ".join(answer[:-1]))
def test_type_is_sparks(answer: tuple[str, ...]) -> None:
    call, *args, expected = answer
    types = [arrow(name) for name in args]
    if call == "add" and set(args) == {"string"}:  # Python's `+`; Spark adds them as numbers
        assert ours(call, types) == pa.string()
    elif expected == "!" or stricter(call, args):
        with pytest.raises(PlanError):
            ours(call, types)
    else:
        assert ours(call, types) == arrow(expected)
