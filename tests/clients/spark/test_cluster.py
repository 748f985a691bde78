"""A standalone cluster of two workers: spark-submit, lost executors, speculative twins."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import fabric
from fabric.clients.demo.checksum import checksum
from tests.support.local import LocalFabric
from tests.support.spark_cluster import SparkCluster
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(900)
HERE = Path(__file__).parent
EXAMPLE = Path(fabric.__file__).parent / "clients" / "demo" / "spark_submit.py"
FIRE = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "2s",
    "spark.speculation.quantile": "0.5",
    "spark.task.maxFailures": "2",
    "spark.executor.cores": "2",
}


def test_the_example_of_the_readme(
    cluster: SparkCluster, two: LocalFabric, session: fabric.Session
) -> None:
    done = cluster.submit(EXAMPLE, f"fabric://{two.address}", token=two.token)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "|carrier|" in done.stdout
    flights = session.read_dataset("example_flights").collect()
    assert flights.num_rows == 1_000_000
    delays = session.read_dataset("example_delays").collect()
    late = flights.filter(pa.compute.greater(flights["delay"], 15))
    counts = late.group_by("carrier").aggregate([([], "count_all"), ("delay", "mean")])
    assert checksum(delays) == checksum(counts.rename_columns(["carrier", "late", "mean"]))


def test_writes_under_fire(
    cluster: SparkCluster, two: LocalFabric, session: fabric.Session
) -> None:
    url = f"fabric://{two.address}"
    done = cluster.submit(HERE / "under_fire.py", url, token=two.token, settings=FIRE)
    said = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert [one["case"] for one in said] == ["once", "always", "twins"], done.stderr[-4000:]
    errors = {one["case"]: one["error"] for one in said}
    whole = checksum(pa.table({"id": range(400_000)}))
    for case in ("once", "twins"):  # a lost executor and a twin: complete and single
        assert errors[case] == ""
        assert checksum(session.read_dataset(f"fire-{case}").collect()) == whole
    assert "ExecutorLostFailure" in errors["always"]
    assert "fire-always" not in session.datasets()
    staged = two.home.glob
    wait_until(lambda: not list(staged("agents/*/datasets/fire-always/**/*.arrows")), 60)
    assert done.stderr.count("Lost executor") >= 3  # one, and each of two tries
    assert "as the attempt 1 succeeded" in done.stderr  # the twin's rows count


def test_no_log_holds_the_token(cluster: SparkCluster, two: LocalFabric) -> None:
    """After both programs: not in what master, workers, drivers and executors wrote."""
    seen = [path for path, text in cluster.logs() if two.token in text]
    assert seen == []
    assert sum(1 for _ in cluster.logs()) > 5
