"""What an error says to write is pasted and run: a hint that fails again fails here."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import fabric
from fabric import DataFrame
from fabric.clients.dataframe.readers.tables import memory_scan
from fabric.errors import PlanError
from fabric.plan.check import check
from fabric.plan.nodes import Plan
from tests.plan.test_rules import REFUSALS

HOLDS = "; write: "
DAY = datetime.date(2024, 1, 31)
FLIGHTS = pa.table({
    "carrier": ["1", "2"], "delay": pa.array([5, 20], pa.int32()),
    "distance": pa.array([1.5, None], pa.float32()), "day": [DAY, DAY],
    "at": [datetime.datetime(2024, 1, 31, 12)] * 2, "late": [False, True],
    "price": pa.array([Decimal("1.50")] * 2, pa.decimal128(10, 2)), "tags": [["a"], []],
})  # fmt: skip
NOT_TO_RUN = {"dataset key unknown", "too many partitions"}
"""It writes, and is more than one process has."""


def names(**more: Any) -> dict[str, Any]:
    """What a user has imported."""
    return {**vars(fabric), **vars(fabric.functions), "F": fabric.functions, "pa": pa,
            "datetime": datetime, "Decimal": Decimal, **more}  # fmt: skip


def pasted(text: str, **more: Any) -> None:
    """Run the line: a step goes behind `df`, an expression into a select."""
    line = f"df{text}" if text.startswith(".") else text
    found = eval(line, names(**more))  # the whole point
    frame = found if isinstance(found, DataFrame) else more["df"].select(found.alias("pasted"))
    frame.collect()


@pytest.mark.parametrize("name", [name for name, (_, _, line) in REFUSALS.items() if line])
def test_the_line_of_a_refused_plan_runs(name: str) -> None:
    build, _, line = REFUSALS[name]
    scan = memory_scan(FLIGHTS)
    node = build(scan)
    with pytest.raises(PlanError) as caught:
        check(Plan(node))
    assert line is not None
    assert caught.value.message.endswith(HOLDS + line)
    frames = [DataFrame.of(scan)] * 2
    if "an earlier step" not in caught.value.message:
        frames = [DataFrame.of(child) for child in node.children]
    if name in NOT_TO_RUN:
        return
    pasted(line, df=frames[0], other=frames[-1])


ROWS = pa.table({
    "k": ["a", "b"], "kk": ["a", "b"], "x": [1, 2], "y": [1, 2], "w": [1.0, 2.0],
    "b": [True, False], "d": [DAY, DAY], "digits": ["1", "2"], "l": [[1], [2]],
})  # fmt: skip
SNIPPETS = (
    'df.select(col("x").pct_change())',
    'df.filter(col("x").cum_sum() > 1)',
    'df.select((col("x").shift(1) + 1).alias("n"))',
    'df.select(col("x").cum_sum().over("k") - 1)',
    'df.select(F.row_number().over())',
    'df.select(F.row_number().over("k"))',
    'df.group_by("k").agg(col("x") + 1)',
    'df.group_by("k").agg((col("x") + 1).alias("n"))',
    'df.select(col("x") - col("x").mean())',
    'df.with_columns(col("x") - col("x").mean())',
    'df.select(col("x").replace({1: "a"}))',
    'df.select(col("k").replace({"a": 1}))',
    'df.select(col("digits") - "1")',
    'df.select(col("k") - "a")',
    'df.select(col("b") + col("b"))',
    'df.select(col("x") & 3)',
    'df.select(col("x") | col("y"))',
    'df.filter(col("b") & col("x"))',
    'df.group_by("digits").agg(col("digits").sum())',
    'df.join(other, left_on="x", right_on="day")',
    'df.join(other, left_on="x", right_on="key")',
    'df.join(other, left_on="digits", right_on="number")',
    'df.select(col("k") + col("x"))',
    'df.select(1 + col("k"))',
    'df.pivot(on="k", index="x", values="digits", aggregate_function="mean")',
)  # fmt: skip


def hints(message: str) -> list[str]:
    """All that a message says to write, each ready to be pasted."""
    message = re.sub(r" \(node \w+\)$", "", message)
    found = re.findall(r"(?:write|for example):? (?:for example: )?(.*?)(?:; |, or |$)", message)
    lines = [line.removesuffix(" with the column to order by") for line in found]
    lines += re.findall(r"make it a key: (group_by\(.*\))$", message)
    lines = [re.sub(r"^(group_by\(.*\))$", r".\1.agg(n_rows=count())", line) for line in lines]
    return [re.sub(r"^(with_columns\()", r".\1", line) for line in lines]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_what_an_error_says_to_write_runs(snippet: str) -> None:
    df = DataFrame(ROWS)
    other = DataFrame({"key": ["1", "2"], "day": [DAY, DAY], "number": [1, 2]})
    with pytest.raises(PlanError) as caught:
        eval(snippet, names(df=df, other=other))
    for hint in hints(str(caught.value)):
        pasted(hint.replace('"..."', '"x"'), df=df, other=other)
