"""What PySpark does in the demo: clean the raw CSVs, load them, read the results back.

One job: Spark's half of steps 1 and 4. Nothing here computes an answer.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from fabric.clients.demo import data, questions
from fabric.clients.spark import install
from fabric.errors import ExternalError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fabric import Job, Session

_SCHEMAS = {
    "airlines": "carrier string, name string",
    "planes": "tailnum string, year int, type string, manufacturer string, model string, "
    "engines int, seats int, speed int, engine string",
    "weather": "origin string, year int, month int, day int, hour int, temp double, dewp double, "
    "humid double, wind_dir int, wind_speed double, wind_gust double, precip double, "
    "pressure double, visib double, time_hour timestamp",
    "flights": "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, "
    "arr_time int, sched_arr_time int, arr_delay int, carrier string, flight int, "
    "tailnum string, origin string, dest string, air_time int, distance int, hour int, "
    "minute int, time_hour timestamp",
}


def start() -> SparkSession:
    """A local session on two cores, with ``format("fabric")``, quiet, in UTC.

    Called again it gives the same session, for use in the calling thread.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need Fabric too
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
    }
    builder: Any = SparkSession.builder.master("local[2]").appName("fabric demo flights")
    try:
        spark = builder.config(map=settings).getOrCreate()
    except (PySparkException, OSError) as error:
        raise ExternalError(
            "the Spark session did not start; it needs Java 17 (fabric doctor checks it), "
            "or run: fabric demo flights --without-spark"
        ) from error
    spark.sparkContext.setLogLevel("ERROR")
    return install(spark)


def load(spark: SparkSession, session: Session, name: str, path: Path) -> tuple[int, float]:
    """Read one raw CSV with its types, write it as a dataset; rows and seconds."""
    begin = time.perf_counter()
    frame = spark.read.csv(
        str(path.absolute()), header=True, schema=_SCHEMAS[name], nullValue=data.NULL
    )
    if name == "planes":
        frame = frame.dropDuplicates(["tailnum"])
    (
        frame.write.format("fabric")
        .option("url", session.flight_url)
        .option("token", session.token)
        .option("dataset", name)
        .option("keys", ",".join(questions.KEYS[name]))
        .mode("overwrite")
        .save()
    )
    rows = session.read_dataset(name).count()
    return rows, time.perf_counter() - begin


def read_back(spark: SparkSession, session: Session, job: Job, folder: Path) -> pa.Table:
    """Read a job's result through Flight, write Parquet, and return what the files hold."""
    frame = (
        spark.read.format("fabric")
        .option("url", session.flight_url)
        .option("token", session.token)
        .option("job", job.id)
        .option("path", job.result_path)
        .load()
    )
    frame.write.mode("overwrite").parquet(str(folder.absolute()))
    return pq.read_table(folder)
