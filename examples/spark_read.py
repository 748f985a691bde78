"""Spark reads a dataset of a fabric, each Spark task from the agent that holds the rows.

    fabric up --agents 2
    export FABRIC_TOKEN=$(cat ~/.fabric/token)
    python examples/spark_read.py fabric://127.0.0.1:6123

Needs PySpark and Java 17. The other direction, and `spark-submit`: `clients/demo/spark_submit.py`.
"""

from __future__ import annotations

import sys

import fabric


def write(url: str) -> None:
    """A dataset of a thousand flights, spread over the agents by carrier."""
    with fabric.connect(url) as session:
        numbers = range(1_000)
        flights = session.read_arrow(
            {"carrier": [n % 16 for n in numbers], "delay": [n % 240 - 60 for n in numbers]}
        )
        flights.write_dataset("example_flights", keys="carrier", mode="overwrite")


def main(url: str) -> None:
    """Write with Fabric, aggregate with Spark."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    write(url)
    spark = fabric.spark.install(SparkSession.builder.appName("fabric").getOrCreate())
    flights = spark.read.format("fabric").option("url", url).load("example_flights")
    late = flights.where("delay > 15").groupBy("carrier")
    late.agg(f.count("*").alias("late"), f.avg("delay").alias("mean")).orderBy("carrier").show()
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: spark_read.py fabric://HOST:PORT")
    main(sys.argv[1])
