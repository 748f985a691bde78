"""Python functions in expressions: the same rows compiled, row by row and over arrays."""

from __future__ import annotations

import math
import threading
import warnings
from typing import Any

import pyarrow.compute as pc
import pytest

import fabric
from fabric import DataFrame, RowByRowWarning, arrow_udf, col, udf
from fabric.errors import ExpressionError, PlanError

VALUES = DataFrame({"a": [1.0, None, -3.5, 4.0], "b": [2.0, 5.0, None, 0.5], "n": [1, 2, 3, None]})


def by_hand(function: Any, *names: str) -> list[Any]:
    rows = VALUES.select(*names).collect().to_pylist()
    found = [tuple(row[name] for name in names) for row in rows]
    return [None if None in row else function(*row) for row in found]


def hypotenuse(a: float, b: float) -> float:
    if a < 0:
        return 0.0
    return math.sqrt(a * a + b * b)


def test_a_compiled_function_is_the_function() -> None:
    frame = VALUES.select(c=udf(hypotenuse, returns="float64")("a", "b"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert frame.collect()["c"].to_pylist() == by_hand(hypotenuse, "a", "b")
    assert 'hypotenuse(col("a"), col("b")) [compiled by Numba]' in frame.explain()


def test_what_cannot_be_compiled_runs_row_by_row_and_says_so() -> None:
    label = udf(lambda s: s.upper() + "!", returns="string")
    frame = DataFrame({"s": ["x", None]}).select(c=label("s"))
    with pytest.warns(RowByRowWarning, match="string is neither a number nor a boolean"):
        assert frame.collect()["c"].to_pylist() == ["X!", None]
    with pytest.warns(RowByRowWarning):
        assert "[row by row]" in frame.explain()


def test_integers_that_might_wrap_are_not_compiled() -> None:
    square = udf(lambda n: n * n, returns="int64")
    with pytest.warns(RowByRowWarning, match="integer arithmetic would wrap unseen"):
        assert VALUES.select(c=square("n")).collect()["c"].to_pylist() == [1, 4, 9, None]
    forced = udf(lambda n: n * n, returns="int64", compile=True)
    assert VALUES.select(c=forced("n")).collect()["c"].to_pylist() == [1, 4, 9, None]
    big = DataFrame({"n": [1 << 62]}).select(
        c=udf(lambda n: n * 8, returns="int64", compile=False)("n")
    )
    with pytest.raises(ExpressionError, match="returned a value that is not a valid int64"):
        big.collect()


def test_an_arrow_function_sees_arrays_and_nulls() -> None:
    filled = arrow_udf(lambda a, b: pc.add(pc.fill_null(a, 0.0), b), returns="float64")
    frame = VALUES.select(c=filled(col("a") * 2, "b"))
    assert frame.collect()["c"].to_pylist() == [4.0, 5.0, None, 8.5]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (arrow_udf(lambda a: a[:1], returns="float64"), r"returned \d values for \d rows"),
        (arrow_udf(lambda a: 3, returns="float64"), "returned an int, not an array"),
        (
            arrow_udf(lambda a: a.cast("string"), returns="bool"),
            "returned string, declared is bool",
        ),
        (
            arrow_udf(lambda a: 1 / 0, returns="float64"),
            "raised ZeroDivisionError: division by zero",
        ),
        (udf(lambda a: 1 / (a - 4), returns="float64"), "raised ZeroDivisionError"),
        (
            udf(lambda a: {}[a], returns="float64", compile=False),
            r"raised KeyError: 1.0 \(line \d+ of test_udf.py\) for 1.0",
        ),
        (
            udf(lambda a: "x", returns="float64", compile=False),
            "returned a value that is not a valid double",
        ),
        (
            udf(lambda a: a + 0.5, returns="int64", compile=False),
            r"returned a value that is not a valid int64: 1\.5 is not whole",
        ),
    ],
)
def test_a_function_that_is_wrong_fails_the_job_by_name(function: Any, message: str) -> None:
    frame = VALUES.select(c=function("a"))
    with pytest.raises(ExpressionError, match=message) as caught:
        frame.collect()
    assert "Traceback" not in str(caught.value)
    assert "the function " in str(caught.value)


def test_refused_at_the_line_that_is_wrong() -> None:
    with pytest.raises(PlanError, match='there is no column "x"'):
        VALUES.select(c=udf(hypotenuse, returns="float64")("x", "b"))
    with pytest.raises(PlanError, match="needs a column"):
        udf(hypotenuse, returns="float64")()
    only = DataFrame({"s": ["x"]}).select(c=udf(len, returns="int64", compile=True)("s"))
    with pytest.raises(PlanError, match="can't be compiled: string is neither"):
        only.collect()
    lock = threading.Lock()
    with pytest.raises(PlanError, match="can't travel"):
        udf(lambda a: lock.locked(), returns="bool")("a")


def test_functions_may_be_anywhere_in_a_plan() -> None:
    positive = udf(lambda a: a > 0.0, returns="bool")
    half = udf(lambda a: a / 2.0, returns="float64")
    frame = (
        VALUES.filter(positive("a"))
        .with_columns(h=half("a"))
        .group_by(k=half("h"))
        .agg(total=half("b").sum())
        .sort("k")
    )
    assert frame.collect().to_pydict() == {"k": [0.25, 1.0], "total": [1.0, 0.25]}


def test_it_decorates() -> None:
    @fabric.udf(returns="float64")
    def twice(a: float) -> float:
        """Two times."""
        return a + a

    assert repr(twice) == "twice(...) -> double"
    assert twice.__doc__ == "Two times."
    assert VALUES.select(twice("a")).columns == ["a"]
