"""Errors of expressions that a method makes of several parts: in the words of the user's call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fabric import DataFrame, col, when
from fabric.errors import ExpressionError, PlanError

DF = DataFrame({"s": ["1", "2", None], "i": [1, 2, 3], "l": [[1], [2], None]})
S, I = col("s"), col("i")  # noqa: E741
BY = {"order_by": "i"}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: I.fill_null("x"),
         '.fill_null can\'t make int64 and string one type in col("i").fill_null("x")'),
        (lambda: (I + I).fill_null("x"), 'in (col("i") + col("i")).fill_null("x")'),
        (lambda: I.replace({"a": 1}),
         '.replace can\'t compare int64 and string in col("i").replace({"a": 1})'),
        (lambda: S.replace({1: 2}), '; write: col("s").cast("int32").replace({1: 2})'),
        (lambda: S.cut([1, 2]), '.cut takes a number, got string in col("s").cut([1, 2]); write: '
                                'col("s").cast("double").cut([1, 2])'),
        (lambda: S.clip(1, 2), '.clip takes a number, got string in col("s").clip(1, 2)'),
        (lambda: S.fill_nan(0), '; write: col("s").cast("double").fill_nan(0)'),
        (lambda: S.is_between(1, 2), '; write: col("s").cast("int32").is_between(1, 2)'),
        (lambda: I.str.to_date("%Y-%m-%d"),
         '.str.to_date takes a string, got int64 in col("i").str.to_date("%Y-%m-%d")'),
        (lambda: S.dt.strftime("%Y"), 'in col("s").dt.strftime("%Y"); write: '
                                      'col("s").cast("timestamp[us, tz=UTC]").dt.strftime("%Y")'),
        (lambda: S.dt.truncate("1h"), '.dt.truncate takes a timestamp or date, got string in'),
        (lambda: S.rolling_sum(2).over(**BY), '.rolling_sum takes numbers, got string in '
                                              'col("s").rolling_sum(2)'),
        (lambda: S.pct_change().over(**BY), '.pct_change takes numbers, got string in col("s")'),
        (lambda: S.diff().over("l", **BY) + 1,
         '.diff takes numbers, got string in col("s").diff()'),
        (I.forward_fill, 'forward_fill needs an order, rows have none by themselves; write for '
                         'example: col("i").forward_fill().over(order_by="...")'),
        ((I - 1).cum_sum, '(col("i") - 1).cum_sum().over(order_by="...")'),
    ],
)  # fmt: skip
def test_the_call_is_named(wrong: Callable[[], Any], says: str) -> None:
    with pytest.raises(PlanError) as caught:
        DF.select(r=wrong())
    assert says in caught.value.message
    hint = caught.value.message.partition("; write: ")[2]
    if hint:
        mended = eval(hint, {"col": col, "when": when})
        DF.select(r=mended.over(**BY) if ".over" in repr(wrong()) else mended)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: (I - S.str.upper()).fill_null(0), "- takes numbers, got string on its right"),
        (lambda: I.fill_null(S.abs()), '.abs takes numbers, got string in col("s").abs()'),
        (lambda: when(S.abs() > 1).then(1).otherwise(2).clip(0, 1), "in col(\"s\").abs()"),
        (lambda: col("z").fill_null(0), 'there is no column "z" here'),
    ],
)  # fmt: skip
def test_what_the_user_gave_to_a_call_is_not(wrong: Callable[[], Any], says: str) -> None:
    with pytest.raises(PlanError) as caught:
        DF.select(r=wrong())
    assert says in caught.value.message


def test_a_window_in_agg_is_shown_as_it_was_written() -> None:
    with pytest.raises(
        PlanError, match=r'agg: col\("i"\)\.sum\(\)\.over\("s"\) has one value a row'
    ):
        DF.group_by("s").agg(I.sum().over("s"))
    with pytest.raises(PlanError, match=r'agg: col\("i"\) - col\("i"\)\.sum\(\)\.over\("s"\) has'):
        DF.group_by("s").agg(I - I.sum().over("s"))
    assert DF.group_by("s").agg((I - I.mean().over("s")).sum().alias("off")).columns == ["s", "off"]


@pytest.mark.parametrize(
    ("format", "says"),
    [
        ("%Y-%m-%d", "'1' is not a valid date for the pattern 'yyyy-M-d' (%Y-%m-%d)"),
        ("%d %b %Y %H:%M",
         "'1' is not a valid date and time for the pattern 'd MMM yyyy H:m' (%d %b %Y %H:%M)"),
        ("on %Y", "'1' is not a valid date for the pattern \"'on 'yyyy\" in"),
    ],
)  # fmt: skip
def test_a_text_that_a_pattern_does_not_read(format: str, says: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        DF.select(r=S.str.to_datetime(format)).collect()
    assert says in str(caught.value)


def test_texts_for_names() -> None:
    for give in (I.name.suffix, I.name.prefix):
        with pytest.raises(PlanError, match="takes a text, got 1"):
            give(1)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="from text to text, got 1 of 'i'"):
        I.name.map(len)  # type: ignore[arg-type]
