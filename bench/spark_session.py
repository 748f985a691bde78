"""Spark sessions for benchmarks: one process with two threads, or a cluster of two executors.

One job: start them quietly, with settings that are fair on a small machine.
"""

from __future__ import annotations

from typing import Any

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "3g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def local_session() -> Any:
    """Spark local[2]."""
    return _session("local[2]", {})


def cluster_session() -> Any:
    """Spark with two executors of one core each, as processes of their own."""
    return _session("local-cluster[2,1,2048]", {"spark.executor.memory": "2g"})


def _session(master: str, more: dict[str, str]) -> Any:
    import os
    import sys

    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("fabric bench")
    for name, value in {**_SETTINGS, **more}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
