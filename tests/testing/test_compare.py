"""Rows alike but for the last digits of floats."""

import math

import pyarrow as pa
import pytest

from tests.support.compare import unlike

NAN = math.nan


def table(*values: object) -> pa.Table:
    return pa.table({"x": list(values), "k": list(range(len(values)))})


@pytest.mark.parametrize("other", [1.0 + 1e-12, 1.0 - 1e-12])
def test_last_digits_do_not_count(other: float) -> None:
    assert unlike(table(1.0, None, NAN), table(other, None, NAN)) == ""
    assert unlike(table([1.0, 2.0]), table([other, 2.0])) == ""
    assert unlike(table(1e-13), table(-1e-13)) == ""


def test_rows_have_no_order() -> None:
    a = table(*(i / 3 for i in range(50)))
    b = pa.table({"x": [(1 + 1e-13) * i / 3 for i in range(50)], "k": range(50)})
    assert unlike(a, b.take(list(reversed(range(50))))) == ""


@pytest.mark.parametrize(
    ("found", "expected"),
    [(1.0, 1.0 + 1e-6), (1.0, None), (NAN, None), (NAN, 1.0), (1, 2), ("a", "b"), ([1.0], [2.0])],
)
def test_differences_are_shown(found: object, expected: object) -> None:
    assert "expected" in unlike(table(found), table(expected))


def test_numbers_of_rows_count() -> None:
    assert unlike(table(1, 2), table(1)) == "2 rows, expected 1"
