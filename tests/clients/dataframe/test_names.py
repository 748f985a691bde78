"""Names nearly right: the nearest one, and the call with it."""

from __future__ import annotations

import pytest

from fabric import DataFrame
from fabric.clients.dataframe.names import call_text, choice, known_names, known_one, value_text
from fabric.errors import PlanError


def test_calls_are_written_as_users_write_them() -> None:
    assert call_text("join", "a", [1, None], how="left", on=None) == (
        '.join("a", [1, None], how="left")'
    )
    assert value_text({"a": ("x",), "b": True}) == '{"a": ("x",), "b": True}'


def test_the_wrong_name_is_replaced_where_it_stands() -> None:
    def line(names: list[str]) -> str:
        return call_text("drop", *names)

    assert known_names(["a"], ["a", "b"], "drop", line) == ["a"]
    with pytest.raises(PlanError, match=r'drop: .*"dely"; did you mean "delay".*\.drop\("a", "d'):
        known_names(["a", "dely"], ["a", "delay"], "drop", line)
    with pytest.raises(PlanError, match=r'write: \.pivot\(on="delay", index="a"\)'):
        known_one(on := "dealy", ["delay", "a"], "pivot", on=on, index="a")
    with pytest.raises(PlanError, match=r'the columns are "a"$'):
        known_one("zzz", ["a"], "pivot", on="zzz")


def test_choices() -> None:
    assert choice("left", ("left", "right"), "join", "side") == "left"
    with pytest.raises(PlanError, match=r"join: side='lef' is not valid.*write: side=\"left\""):
        choice("lef", ("left", "right"), "join", "side")


def test_pyspark_s_names_work() -> None:
    df = DataFrame({"a": [1, None], "b": [2, 3]})
    assert df.dropDuplicates(["a"]).columns == df.columns
    assert df.withColumnsRenamed({"a": "c"}).columns == ["c", "b"]
    assert df.fillna(0).dtypes == df.dtypes
    assert df.groupBy("a").count().columns == ["a", "count"]
