"""Run a frame in two places and compare: embedded and on Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import fabric
from fabric.clients.spark.plan.run import execute
from fabric.plan.check import check
from fabric.plan.nodes import Node, Plan
from fabric.plan.schema import schema_of
from tests.support.compare import unlike

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parent))  # for `plan_frames`
Same = Callable[..., pa.Table]


@pytest.fixture(scope="package")
def embedded() -> Iterator[fabric.Session]:
    with fabric.connect() as session:
        yield session


@pytest.fixture(scope="package")
def on_spark(spark: SparkSession) -> Callable[[Node | fabric.DataFrame], pa.Table]:
    """The rows of a plan on Spark, whose types are looked at."""

    def run(plan: Node | fabric.DataFrame) -> pa.Table:
        root = check(plan.plan if isinstance(plan, fabric.DataFrame) else Plan(plan)).root
        table = execute(root, spark)
        table.validate(full=True)
        assert table.schema.equals(schema_of(root))
        return table

    return run


@pytest.fixture(scope="package")
def same(embedded: fabric.Session, on_spark: Callable[[Node], pa.Table]) -> Same:
    """The rows of a plan, equal embedded and on Spark; in order if `ordered`."""

    def run(plan: Node | fabric.DataFrame, *, ordered: bool = False) -> pa.Table:
        node = plan.plan.root if isinstance(plan, fabric.DataFrame) else plan
        with embedded.submit(Plan(node)) as job:
            expected = job.collect()
        found = on_spark(node)
        if ordered:
            assert found.to_pylist() == expected.to_pylist()
        else:
            assert not unlike(found, expected)
        return found

    return run
