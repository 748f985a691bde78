"""The Spark session there is, or one that starts now.

One job: `spark_session`. If Java is missing, that is said in one sentence, before a JVM is
asked for; what the JVM says goes to a file, not to the terminal.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from fabric.clients.spark.session import check_java, run_workers_here
from fabric.errors import ConfigError, ExternalError

_LOCAL = "local[*]"
_HEAP_SHARE = 4
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # call sites inside Fabric help nobody
}


def spark_session(target: str = "spark") -> tuple[bool, SparkSession]:
    """Whether it was started now, and a session of the master `target`.

    ``spark`` is the active one of this thread or process, else one on this machine.

    Raises
    ------
    ConfigError
        A session of another master runs in this process.
    ExternalError
        Java is missing or too old, or Spark does not start.
    """
    active = _running()
    if active is None:
        return True, _started(_LOCAL if target == "spark" else target)
    master = active.sparkContext.master
    if target not in ("spark", master):
        raise ConfigError(
            f"Spark runs in this process already, on {master}; stop it before connecting to "
            f"{target}, or give connect(spark=session)"
        )
    return False, active


def checked(spark: SparkSession) -> SparkSession:
    """`spark`, a classic session whose workers can run Fabric; another kind is refused."""
    if getattr(spark, "_jvm", None) is None:
        raise ConfigError(
            "plans run in a classic Spark session, and this one is not one (Spark Connect has no "
            "JVM here); start one with SparkSession.builder.master(...)"
        )
    run_workers_here(spark)
    return spark


def _running() -> SparkSession | None:
    """The active session of this thread, or else the process's; None when Spark is not up."""
    if SparkContext._active_spark_context is None:
        return None
    return checked(SparkSession.getActiveSession() or SparkSession.builder.getOrCreate())


def _started(master: str) -> SparkSession:
    """A new session; Fabric must be importable where its workers run."""
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {"spark.master": master, "spark.app.name": "fabric"}
    settings |= _SETTINGS | (_of_this_machine() if master.startswith("local") else {})
    log = Path(tempfile.mkdtemp(prefix="fabric-spark-"), "jvm.log")
    atexit.register(shutil.rmtree, log.parent, ignore_errors=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return launched(settings, log)
    except Exception as error:  # whatever gateway, JVM and PySpark raise
        said = log.read_text("utf-8", "replace") if log.exists() else ""
        raise ExternalError(f"Spark did not start on {master}: {_reason(said, error)}") from None


def _of_this_machine() -> dict[str, str]:
    """Settings of a Spark that is one process here: it may have a share of the memory."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": f"{max(1, memory_gib // _HEAP_SHARE)}g",
        "spark.driver.maxResultSize": "0",  # what is collected is this process's own affair
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    }


def launched(settings: dict[str, str], log: Path) -> SparkSession:
    """Start a JVM whose words go to `log`: it prints tracebacks of what is told here in a line."""
    conf = SparkConf().setAll(list(settings.items()))
    with log.open("wb") as out:
        launch: Any = launch_gateway  # has no types
        gateway = launch(conf, {"stdout": out, "stderr": out})
    context = SparkContext(conf=conf, gateway=gateway)
    context.setLogLevel("ERROR")
    return SparkSession.builder.getOrCreate()


def _reason(said: str, error: Exception) -> str:
    """The last thing the JVM complained of, else what PySpark raised."""
    complaints = [line for line in said.splitlines() if "Exception" in line or "Error" in line]
    lines = [line for line in (*complaints[-1:], *str(error).splitlines()) if line.strip()]
    return lines[0].strip()[:300] if lines else type(error).__name__
