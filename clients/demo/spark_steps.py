"""What PySpark does in the demo: clean the raw CSVs, load them, read the results back.

One job: Spark's half of steps 1 and 4. Nothing here computes an answer.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fabric.clients.demo import questions
from fabric.clients.spark.session import check_pyspark, java_problem
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


_SETTINGS = {
    "spark.master": "local[2]",
    "spark.app.name": "fabric demo flights",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
}


def start(log: Path) -> SparkSession:
    """A local session on two cores, in UTC; what its JVM says goes to `log`.

    Raises
    ------
    ExternalError
        If PySpark or Java is missing or does not start; says what to do.
    """
    without = "or run: fabric demo flights --without-spark"
    try:
        check_pyspark()
    except ExternalError as error:
        raise ExternalError(f"{error}, {without}") from error
    if problem := java_problem():
        raise ExternalError(f"{problem}, {without}")
    from fabric.clients.spark.plan.start import launched  # needs PySpark

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need Fabric too
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return launched(_SETTINGS, log)
    except Exception as error:  # whatever JVM, gateway and PySpark raise
        raise ExternalError(
            f"the Spark session did not start; its output is in {log}. Mend it, {without}"
        ) from error


def load(spark: SparkSession, session: Session, name: str, path: Path) -> tuple[int, float]:
    """Read one raw CSV with its types, write it as a dataset; rows and seconds."""
    from fabric.clients.spark.plan.sources import DatasetHome

    begin = time.perf_counter()
    frame = spark.read.csv(
        str(path.absolute()), header=True, schema=_SCHEMAS[name], nullValue=questions.NULL
    )
    if name == "planes":
        frame = frame.dropDuplicates(["tailnum"])
    (
        frame.write.format("fabric")
        .options(**DatasetHome.of(session).options)
        .option("dataset", name)
        .option("keys", ",".join(questions.KEYS[name]))
        .option("replicas", questions.REPLICAS)
        .mode("overwrite")
        .save()
    )
    seconds = time.perf_counter() - begin
    return session.read_dataset(name).count(), seconds


def read_back(spark: SparkSession, session: Session, job: Job, folder: Path) -> None:
    """Read a job's result through Flight and write Parquet."""
    from fabric.clients.spark.plan.sources import DatasetHome

    frame = (
        spark.read.format("fabric")
        .options(**DatasetHome.of(session).options)
        .option("job", job.id)
        .option("path", job.result_path)
        .load()
    )
    frame.write.mode("overwrite").parquet(str(folder.absolute()))
