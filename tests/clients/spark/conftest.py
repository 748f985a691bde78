"""Two agents, a Spark session with ``format("fabric")``, and the words to read and write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import fabric
from fabric.clients.spark import install
from fabric.clients.spark.types import spark_schema
from tests.support.local import LocalFabric, local_fabric
from tests.support.spark_cluster import SparkCluster, spark_cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class Connector:
    """Reads and writes one fabric through its first agent, unless told otherwise."""

    spark: SparkSession
    url: str
    token: str
    home: Path

    def load(self, schema: str = "", **options: str) -> DataFrame:
        reader = self.spark.read.format("fabric")
        given = {"url": self.url, "token": self.token, **options}
        reader = reader.options(**given).schema(schema) if schema else reader.options(**given)
        return reader.load()

    def save(
        self, frame: DataFrame | pa.Table, dataset: str, mode: str = "append", **options: str
    ) -> None:
        if isinstance(frame, pa.Table):
            frame = self.frame(frame)
        given = {"url": self.url, "token": self.token, "dataset": dataset, **options}
        frame.write.format("fabric").mode(mode).options(**given).save()

    def frame(self, table: pa.Table) -> DataFrame:
        return self.spark.createDataFrame(table, schema=spark_schema(table.schema))

    def files(self, dataset: str) -> list[str]:
        """What lies of a dataset in the folders of all agents."""
        found = self.home.glob(f"agents/*/datasets/{dataset}/**/*")
        return sorted(str(path.relative_to(self.home)) for path in found if path.is_file())


@pytest.fixture(scope="package")
def two() -> Iterator[LocalFabric]:
    with local_fabric(2) as running:
        yield running


@pytest.fixture(scope="package")
def session(two: LocalFabric) -> Iterator[fabric.Session]:
    with fabric.connect(f"fabric://{two.address}", token=two.token) as opened:
        yield opened


@pytest.fixture(scope="package")
def installed(spark: SparkSession) -> SparkSession:
    return install(spark)


@pytest.fixture(scope="package")
def connector(installed: SparkSession, two: LocalFabric, session: fabric.Session) -> Connector:
    return Connector(installed, session.flight_url, two.token, two.home)


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A standalone cluster of two workers."""
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
