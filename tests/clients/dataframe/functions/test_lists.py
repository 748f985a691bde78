"""Lists and structs made of columns."""

from __future__ import annotations

import pytest

import fabric
from fabric import array, col, functions, lit, struct
from fabric.errors import PlanError

FRAME = fabric.from_dict({"a": [1, None], "l": [[1, 2], None], "m": [["x"], ["y"]]})


def test_made_of_columns() -> None:
    found = FRAME.select(
        array("a", 5).alias("array"),
        struct("a", twice=col("a") * 2).alias("struct"),
        functions.sequence(3, 1).alias("down"),
        functions.array_repeat("a", 2).alias("repeat"),
        functions.arrays_zip("l", other="m").alias("zip"),
        lit([1, None]).alias("list"),
    )
    assert found.collect().to_pydict() == {
        "array": [[1, 5], [None, 5]],
        "struct": [{"a": 1, "twice": 2}, {"a": None, "twice": None}],
        "down": [[3, 2, 1], [3, 2, 1]],
        "repeat": [[1, 1], [None, None]],
        "zip": [[{"l": 1, "other": "x"}, {"l": 2, "other": None}], None],
        "list": [[1, None], [1, None]],
    }


def test_nothing_to_make_it_of() -> None:
    with pytest.raises(PlanError, match="struct needs a column"):
        struct()
    with pytest.raises(PlanError, match="list_zip needs a column"):
        functions.list_zip()
