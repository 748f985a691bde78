"""Spark sessions for benchmarks: one process with two threads, or a cluster of two executors.

One job: start them quietly, with settings that are fair on a small machine. Shuffle files lie in a
folder of their own, which goes with the process.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from typing import Any

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def local_session() -> Any:
    """Spark local[2]."""
    return _session("local[2]", {"spark.driver.memory": "3g"})


def cluster_session() -> Any:
    """Spark with two executors of one core each, as processes of their own."""
    more = {"spark.driver.memory": "1g", "spark.executor.memory": "2g"}
    return _session("local-cluster[2,1,2048]", more)


def _session(master: str, more: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    if "SPARK_LOCAL_DIRS" not in os.environ:
        os.environ["SPARK_LOCAL_DIRS"] = own = tempfile.mkdtemp(prefix="fabric-bench-spark-")
        atexit.register(shutil.rmtree, own, ignore_errors=True)
    builder = SparkSession.builder.master(master).appName("fabric bench")
    for name, value in {**_SETTINGS, **more}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
