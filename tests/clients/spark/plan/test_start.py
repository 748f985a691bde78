from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fabric.clients.session.address import is_spark

PROGRAM = """
import fabric
from fabric import col
df = fabric.DataFrame({"a": [1, 2, 3]}).filter(col("a") > 1)
"""


def test_addresses() -> None:
    yes = ("spark", "spark://a:7077", "local", "local[2]", "local[*]", "local-cluster[2,1,1024]")
    assert all(map(is_spark, yes))
    assert not any(map(is_spark, ("", "fabric://x", "localhost", "localhost:6123", "sparky")))


def run(file: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fabric.clients.cli", "run", "--engine", "spark", *arguments]
    return subprocess.run(
        [*command, str(file)], capture_output=True, text=True, check=False, timeout=240,
        env={**os.environ, **environment}, cwd=file.parent,
    )  # fmt: skip


def test_run_engine_spark(tmp_path: Path) -> None:
    """A process of its own: it starts Spark, says nothing but the rows, leaves nothing."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    done = run(file, "--connect", "local[1]")
    assert done.returncode == 0, done.stderr
    assert "│     3 │" in done.stdout
    assert done.stderr == ""
    assert os.listdir(tmp_path) == ["program.py"]


def test_run_without_java(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    done = run(file, JAVA_HOME=str(tmp_path / "none"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "ExternalError: Java is missing" in done.stderr
