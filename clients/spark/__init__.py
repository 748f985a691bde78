"""PySpark and Fabric: ``format("fabric")`` reads and writes Flight streams of a fabric.

Call `install(spark)` once per session; then::

    spark.read.format("fabric").option("url", url).load("flights")
    df.write.format("fabric").option("url", url).mode("append").save("out")

Importing this package does not import pyspark.
"""

from __future__ import annotations

from fabric.clients.spark.session import install

__all__ = ["install"]
