"""Functions with names of PySpark's give live Spark's answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from golden_polars import difference
from golden_pyspark import Questions, by_fabric, by_spark, questions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("asked", questions(), ids=lambda q: f"{q.table} {q.key}".strip())
def test_the_same_as_in_spark(asked: Questions, spark: SparkSession) -> None:
    pairs = zip(asked.texts, by_fabric(asked), by_spark(spark, asked), strict=True)
    wrong = {
        text: found
        for text, ours, theirs in pairs
        if (found := difference(replace(ours, names=()), replace(theirs, names=())))
    }
    assert wrong == {}


def test_there_are_enough() -> None:
    assert sum(len(asked.texts) for asked in questions()) >= 100
