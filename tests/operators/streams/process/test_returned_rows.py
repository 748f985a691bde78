"""What functions return, and what is refused by name."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from fabric.errors import ExpressionError
from fabric.operators.streams.process.returned_rows import rows_of_returned

SCHEMA = pa.schema([("a", pa.int8()), ("b", pa.string())])
ROW = [{"a": 1, "b": "x"}]
LISTS = pa.schema([("l", pa.list_(pa.int64())), ("a", pa.int8())])
DECIMAL = pa.schema([("d", pa.decimal128(10, 2))])


def rows(found, schema=SCHEMA):
    batches = list(rows_of_returned(found, schema))
    assert all(batch.schema.equals(schema) for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    "found",
    [
        {"a": 1, "b": "x"},
        {"b": ["x"], "a": np.array([1])},
        {"a": pa.array([1]), "b": pa.chunked_array([["x"]])},
        {"a": (1,), "b": ["x"]},
        {"a": 1.0, "b": "x"},
        pa.record_batch({"a": [1.0], "b": ["x"]}),
        pa.record_batch({"b": ["x"], "a": [1]}),
        pa.table({"a": pa.array([1], pa.int8()), "b": pa.array(["x"]).dictionary_encode()}),
        [None, {"a": 1, "b": "x"}],
        iter([[{"a": 1, "b": "x"}], ()]),
    ],
)
def test_rows_in_any_form(found):
    assert rows(found) == ROW


def test_none_and_nothing_are_no_rows():
    assert rows(None) == rows([]) == rows(iter(())) == []


def test_a_list_may_be_a_value():
    assert rows({"l": [1, 2], "a": 1}, LISTS) == [{"l": [1, 2], "a": 1}]
    assert rows({"l": [[1], [2]], "a": [1, 2]}, LISTS)[1] == {"l": [2], "a": 2}


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (7, "it returned an int; return a batch"),
        ("text", "it returned a str"),
        ({"a": 1}, "it returned the columns a; declared are a, b"),
        ({}, "it returned the columns none"),
        ({"a": 1, "b": "x", "c": 2}, "it returned the columns a, b, c"),
        ({1: 1, "b": "x"}, "it returned the columns 1, b"),
        ({"a": 1, "b": ["x"]}, "it returned columns and single values in one dict"),
        ({"a": [1, 2], "b": ["x"]}, "it returned columns of different lengths: a: 2, b: 1"),
        ({"a": 300, "b": "x"}, "it returned a value for a that is not a valid int8"),
        ({"a": "x", "b": "x"}, "it returned a value for a that is not a valid int8"),
        (
            {"a": 1.5, "b": "x"},
            "value for a that is not a valid int8: 1.5 is not whole",
        ),
        ({"a": [1, 1.5], "b": ["x", "y"]}, "for a that is not a valid int8: 1.5 is not whole"),
        ({"a": np.array([1.5]), "b": ["x"]}, "it returned a value for a that is not a valid int8"),
        (pa.record_batch({"a": [1.5], "b": ["x"]}), "it returned double for a, declared is int8"),
        (pa.record_batch({"a": [300], "b": ["x"]}), "it returned int64 for a, declared is int8"),
        (pa.record_batch({"a": [[1]], "b": ["x"]}), "it returned list<.*> for a"),
        ([ROW[0], 5], "it returned an int"),
    ],
)
def test_something_else_is_named(found, text):
    with pytest.raises(ExpressionError, match=text):
        rows(found)


def test_a_decimal_that_arrow_must_not_see():
    with pytest.raises(
        ExpressionError, match="returned a value for d that is not a valid decimal128"
    ):
        rows({"d": Decimal("1E-999999999")}, DECIMAL)
