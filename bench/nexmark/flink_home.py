"""Flink, installed for benchmarks alone.

One job: an environment of its own (its pyarrow is another one than ours), made once in the user's
cache: `apache-flink` by pip, and by Maven the jars with which it reads Parquet.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "2.3.0"
PARQUET = f"org.apache.flink:flink-sql-parquet:{VERSION}"
HADOOP = tuple(f"org.apache.hadoop:hadoop-client-{part}:3.4.1" for part in ("api", "runtime"))
_WHOLE = "whole"


def home() -> Path:
    """Where it lies; raises `RuntimeError` with what is missing when it can't be made."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = root / "fabric-bench" / f"flink-{VERSION}"
    if not (found / _WHOLE).exists():
        for tool in ("java", "javac", "mvn"):
            if shutil.which(tool) is None:
                raise RuntimeError(f"Flink needs {tool}; install it, or leave this peer out")
        shutil.rmtree(found, ignore_errors=True)
        _install(found)
        (found / _WHOLE).touch()
    return found


def python(home: Path) -> str:
    """The interpreter."""
    return str(home / "bin" / "python")


def environment(home: Path) -> dict[str, str]:
    """The variables that its processes need."""
    jars = os.pathsep.join(str(path) for path in sorted((home / "jars").glob("*.jar")))
    return {**os.environ, "HADOOP_CLASSPATH": jars}


def classpath(home: Path) -> str:
    """Flink's own jars, for jobs in Java."""
    return os.pathsep.join(
        map(str, sorted(home.glob("lib/python*/site-packages/pyflink/lib/*.jar")))
    )


def _install(at: Path) -> None:
    _call(sys.executable, "-m", "venv", str(at))
    _call(python(at), "-m", "pip", "install", "--quiet", f"apache-flink=={VERSION}")
    jars = at / "jars"
    for artifact in (PARQUET, *HADOOP):
        _call("mvn", "-q", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={jars}")


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        told = (done.stdout + done.stderr)[-2_000:]
        raise RuntimeError(f"{' '.join(command)} failed:\n{told}")
