"""Java for Spark: is there one, and is it new enough?

One job: find the ``java`` that Spark would start, and say plainly what is wrong with it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from fabric.errors import ExternalError

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
