"""Flink, installed for benchmarks alone.

One job: an environment of its own (homes.py; its pyarrow is another one than ours), with the jars
that Maven has of it: those with which it reads Parquet, and its connector of Kafka. And `program`,
a job in Java.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import homes

VERSION = homes.version_of("flink")
PARQUET = f"org.apache.flink:flink-sql-parquet:{VERSION}"
HADOOP = tuple(f"org.apache.hadoop:hadoop-client-{part}:3.4.1" for part in ("api", "runtime"))
KAFKA_VERSION = "5.0.0-2.2"
"""The newest there is; it is built for Flink 2.2."""
KAFKA = f"org.apache.flink:flink-sql-connector-kafka:{KAFKA_VERSION}"
END_S = 10.0
_OPEN = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util", "net")]
"""What Flink looks into."""


def home() -> Path:
    """Where it lies; raises `RuntimeError` with what is missing when it can't be made."""
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            raise RuntimeError(f"Flink needs {tool}; install it, or leave this peer out")
    return homes.home_of("flink")


def python(home: Path) -> str:
    """The interpreter."""
    return str(home / "bin" / "python")


def environment(home: Path) -> dict[str, str]:
    """The variables that its processes need to read Parquet."""
    return {**os.environ, "HADOOP_CLASSPATH": _jars(home, "parquet", PARQUET, *HADOOP)}


@contextmanager
def program(source: Path, *arguments: str, kafka: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A virtual machine that runs a job in Java, compiled anew, until its standard input ends."""
    at = home()
    own = at.glob("lib/python*/site-packages/pyflink/lib/*.jar")
    classpath = os.pathsep.join(map(str, sorted(own)))
    if kafka:
        classpath = os.pathsep.join((classpath, _jars(at, "kafka", KAFKA)))
    with tempfile.TemporaryDirectory(prefix="fabric-bench-flink-") as folder:
        homes.call("javac", "-nowarn", "-cp", classpath, "-d", folder, str(source))
        classpath = os.pathsep.join((folder, classpath))
        flink = subprocess.Popen(
            ["java", *_OPEN, "-cp", classpath, source.stem, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            yield flink
        finally:
            _end(flink)


def _jars(home: Path, name: str, *artifacts: str) -> str:
    """A class path of jars that Maven checks by their published checksums (``-C``)."""
    folder = home / name
    if not folder.exists():
        made = home / f"{name}.made"
        for artifact in artifacts:
            wanted = f"-Dartifact={artifact}", f"-DoutputDirectory={made}"
            homes.call("mvn", "-B", "-q", "-C", "dependency:copy", *wanted)
        made.rename(folder)
    return os.pathsep.join(str(path) for path in sorted(folder.glob("*.jar")))


def _end(flink: subprocess.Popen[str]) -> None:
    assert flink.stdin is not None
    flink.stdin.close()
    try:
        flink.wait(timeout=END_S)
    except subprocess.TimeoutExpired:
        flink.kill()
        flink.wait()
