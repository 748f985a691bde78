"""An example to run on any Spark cluster: a dataset written, read back and summed up.

    FABRIC_TOKEN=$(cat ~/.fabric/token) spark-submit --master spark://HOST:7077 \\
        clients/demo/spark_submit.py fabric://HOST:6123

One job: show the whole way in a few lines. Every Spark task puts its rows straight to the agents
that own them and reads from them again; nothing passes through the driver.
"""

from __future__ import annotations

import sys

import fabric

FLIGHTS = 1_000_000


def main(url: str) -> None:
    """Write, read, aggregate and write again, at the fabric at `url`."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    spark = fabric.spark.install(SparkSession.builder.appName("fabric example").getOrCreate())

    flights = spark.range(FLIGHTS).selectExpr("id", "id % 16 carrier", "id * id % 240 - 60 delay")
    to = flights.write.format("fabric").option("url", url).option("keys", "carrier")
    to.mode("overwrite").save("example_flights")

    stored = spark.read.format("fabric").option("url", url).load("example_flights")
    late = stored.where("delay > 15")  # rows are filtered as they arrive from the agents
    delays = late.groupBy("carrier").agg(f.count("*").alias("late"), f.avg("delay").alias("mean"))
    to = delays.write.format("fabric").option("url", url)
    to.mode("overwrite").save("example_delays")

    delays.orderBy("carrier").show()
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: spark-submit [...] spark_submit.py fabric://HOST:PORT")
    main(sys.argv[1])
