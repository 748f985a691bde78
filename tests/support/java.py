"""How Java runs in tests: each JVM lives for seconds, so it had better not optimise for hours.

One job: `BRIEF`, options of a JVM, and `brief_jvms`, which has Spark and Maven use them. The second
compiler and the concurrent collector took a fifth of both cores beside tests that use Spark.
"""

from __future__ import annotations

from collections.abc import MutableMapping

BRIEF = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def brief_jvms(environ: MutableMapping[str, str]) -> None:
    """Have what is started in `environ` use `BRIEF`, unless it says otherwise: Spark's drivers and
    daemons, and Maven. Executors take theirs from the settings of their application."""
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS", "MAVEN_OPTS"):
        environ.setdefault(name, " ".join(BRIEF))
