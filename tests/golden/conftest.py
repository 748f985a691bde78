"""Fixtures of the golden table: its helper module, and Spark as it needs it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for golden_expressions, which is no test

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(spark: SparkSession) -> SparkSession:
    """A session of the run's Spark that computes every expression as a job would."""
    from golden_spark import adapt

    return adapt(spark.newSession())
