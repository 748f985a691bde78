"""Making a Spark session know ``format("fabric")``.

One job: `install`, with everything that would otherwise fail later and less clearly: PySpark's
version, the Python that workers run, the session settings the connector needs; and `check_java`:
whether there is the Java that Spark would start, and whether it is new enough.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabric.errors import ConfigError, ExternalError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PYSPARK_NEEDED = (4, 1)
"""The first with filter pushdown for Python data sources."""

SETTINGS = {"spark.sql.python.filterPushdown.enabled": "true"}
_PROBE_S = 60.0


def install(spark: SparkSession) -> SparkSession:
    """Register ``format("fabric")`` with a Spark session; returns the session.

    It also lets Spark push filters into it, and makes the session the calling thread's own: when
    Spark writes, it looks a format up in the session of the thread, and a thread that did not make
    the session has none. While Spark runs on this machine and ``PYSPARK_PYTHON`` is not set, its
    Python workers run this Python from then on.

    Raises
    ------
    ExternalError
        When PySpark is missing or too old.
    ConfigError
        When Spark's Python workers run a Python without Fabric.
    """
    check_pyspark()
    from fabric.clients.spark.source import FabricDataSource

    jvm = getattr(spark, "_jvm", None)  # Spark Connect has none, and no threads
    if jvm is not None:
        if not run_workers_here(spark):
            check_worker_python(jvm)
        session: Any = spark  # first: Spark asks the thread's session whether the name is taken
        jvm.SparkSession.setActiveSession(session._jsparkSession)
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    spark.dataSource.register(FabricDataSource)
    return spark


def check_pyspark() -> None:
    """PySpark is there and new enough, else an `ExternalError` says what to do."""
    try:
        from pyspark import __version__
    except ImportError as error:
        raise ExternalError("PySpark is missing: pip install 'flight-fabric[spark]'") from error
    if tuple(int(part) for part in __version__.split(".")[:2]) < PYSPARK_NEEDED:
        needed = ".".join(map(str, PYSPARK_NEEDED))
        raise ExternalError(
            f"PySpark {__version__} is too old, Fabric needs {needed} or newer: "
            "pip install 'flight-fabric[spark]'"
        )


def run_workers_here(spark: SparkSession) -> bool:
    """Have the Python workers of a Spark on this machine run this Python, unless another is named.

    Spark would start whatever ``python3`` is on the path. On a cluster only its owner knows.
    """
    context: Any = spark.sparkContext
    if not context.master.startswith("local") or _named_python(spark._jvm):
        return False
    context.pythonExec = sys.executable  # what functions and data sources take along
    return True


def _named_python(jvm: Any) -> str | None:
    """The Python that somebody chose for Spark before it started."""
    environment = jvm.System.getenv()
    names = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
    return next((found for name in names if (found := environment.get(name))), None)


def check_worker_python(jvm: Any) -> None:
    """The Python that Spark starts for us on the driver has Fabric; `ConfigError` if not.

    Spark would only say that a "Python worker exited unexpectedly".
    """
    python = _named_python(jvm) or "python3"
    found = shutil.which(python)
    if found is not None and os.path.abspath(found) == os.path.abspath(sys.executable):
        return
    if found is None or not _has_fabric(found, jvm.System.getenv().get("PYTHONPATH") or ""):
        raise ConfigError(
            f"Spark's workers would run {python!r}, which "
            f"{'is not there' if found is None else 'has no Fabric'}; before the Spark session "
            f"starts, set the environment variable PYSPARK_PYTHON, here to {sys.executable}"
        )


def _has_fabric(python: str, path: str) -> bool:
    probe = "import pyarrow, fabric.clients.spark"
    done = subprocess.run(
        [python, "-c", probe],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        timeout=_PROBE_S,
        check=False,
    )
    return done.returncode == 0


JAVA_NEEDED = 17
_ASK_S = 30.0


def find_java() -> str | None:
    """The ``java`` of JAVA_HOME, as Spark prefers it, else the one on the PATH; None without."""
    home = os.environ.get("JAVA_HOME", "")
    return str(Path(home, "bin", "java")) if home else shutil.which("java")


def java_major() -> int | None:
    """The major version of that ``java``; None when there is none that runs."""
    if (java := find_java()) is None:
        return None
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_ASK_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found else None


def java_problem() -> str:
    """What is wrong with Java for Spark, and what to do; empty when nothing is."""
    major, home = java_major(), os.environ.get("JAVA_HOME", "")
    install = f"install Java {JAVA_NEEDED} (openjdk-{JAVA_NEEDED}-jre-headless)"
    if major is None:
        where, mend = (f" in JAVA_HOME ({home})", " or correct JAVA_HOME") if home else ("", "")
        return f"Java is missing{where}, and Spark runs on it; {install}{mend}"
    if major < JAVA_NEEDED:
        return f"Java {major} is too old for Spark; {install}, or point JAVA_HOME at one"
    return ""


def check_java() -> None:
    """Raise `ExternalError` unless Spark can start with the Java that is here."""
    if problem := java_problem():
        raise ExternalError(problem)
