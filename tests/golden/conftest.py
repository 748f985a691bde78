"""Fixtures of the golden table: its helper module, and one live Spark for the session."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for golden_expressions, which is no test

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark in ANSI mode with time zone UTC, on one thread.

    Projections of local rows are not folded by the optimizer, so that the generated code runs.
    """
    from golden_spark import start

    session = start()
    yield session
    session.stop()
