"""PySpark and Fabric: ``format("fabric")`` reads and writes Flight streams of a fabric.

Call `install(spark)` once per session; then::

    spark.read.format("fabric").option("url", url).option("dataset", "flights").load()
    df.write.format("fabric").option("url", url).option("dataset", "out").mode("append").save()

Importing this package does not import pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["install"]


def install(spark: SparkSession) -> SparkSession:
    """Register ``format("fabric")`` with a Spark session; returns the session.

    It also makes the session the calling thread's own: when Spark writes, it looks a format up in
    the session of the thread, and a thread that did not make the session has none.
    """
    from fabric.clients.spark.source import FabricDataSource

    spark.dataSource.register(FabricDataSource)
    if (jvm := getattr(spark, "_jvm", None)) is not None:  # Spark Connect has none, and no threads
        jvm.SparkSession.setActiveSession(spark._jsparkSession)
    return spark
