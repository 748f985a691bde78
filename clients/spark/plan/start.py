"""The Spark session there is, or one that starts now.

One job: `spark_session`. What is missing (PySpark, Java, a new enough one) is said in one sentence,
before a JVM is asked for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from fabric.errors import ConfigError, ExternalError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = 17
_LOCAL = "local[*]"
_LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
}


def is_spark(target: str) -> bool:
    """Whether an address is one of Spark's: ``spark``, ``spark://…``, ``local``, ``local[2]``.

    >>> is_spark("local[2]"), is_spark("fabric://host:6123")
    (True, False)
    """
    return bool(re.fullmatch(r"spark|spark://.+|local|local(-cluster)?\[.+\]", target))


def spark_session(target: str = "spark") -> tuple[bool, SparkSession]:
    """Whether it was started now, and a session of the master `target`.

    ``spark`` is the active one of this thread or process, else one on this machine.

    Raises
    ------
    ConfigError
        A session of another master runs in this process.
    ExternalError
        PySpark or Java is missing or too old, or Spark does not start.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PySpark's modules, as they are imported
            from pyspark.sql import SparkSession
    except ImportError as error:
        raise ExternalError(
            "PySpark is missing; install it: pip install 'flight-fabric[spark]'"
        ) from error
    active = _running(SparkSession)
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
    """`spark`, a classic session; another kind is refused."""
    if getattr(spark, "_jvm", None) is None:
        raise ConfigError(
            "plans run in a classic Spark session, and this one is none (Spark Connect has no JVM "
            "here); start one with SparkSession.builder.master(...)"
        )
    return spark


def _running(kind: type[SparkSession]) -> SparkSession | None:
    """The active session of this thread, or else the process's; None when Spark is not up."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:
        return None
    return checked(kind.getActiveSession() or kind.builder.getOrCreate())


def _started(master: str) -> SparkSession:
    """A new session; Fabric must be importable where its workers run."""
    from pyspark.sql import SparkSession

    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("fabric")
    settings = {"spark.ui.showConsoleProgress": "false"}
    if master.startswith("local"):
        settings.update(_LOCAL_SETTINGS)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spark = builder.getOrCreate()
    except Exception as error:  # whatever gateway, JVM and PySpark raise
        text = next((line for line in str(error).splitlines() if line.strip()), "no reason given")
        raise ExternalError(f"Spark did not start on {master}: {text[:300]}") from None
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def require_java() -> None:
    """Raise `ExternalError` when there is no Java that Spark runs on."""
    major = java_major()
    if major is None:
        raise ExternalError(
            f"Java is missing, and Spark runs on it; install Java {JAVA} (openjdk-17-jre-headless)"
        )
    if major < JAVA:
        raise ExternalError(
            f"Java {major} is too old for Spark; install Java {JAVA}, or point JAVA_HOME at one"
        )


def java_major() -> int | None:
    """The major version of the Java that Spark would start: JAVA_HOME's, else the PATH's."""
    home = os.environ.get("JAVA_HOME", "")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not java or not os.access(java, os.X_OK):
        return None
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found else None
