"""Processes that are started beside an open connection: Spark's JVM is one of them."""

from __future__ import annotations

import subprocess
import sys

from tests.support.local import LocalFabric

PROGRAM = """
import subprocess
import sys

import fabric

with fabric.connect(sys.argv[1], token=sys.argv[2]) as session:
    session.read_arrow({"a": [1]}).collect()
    for _ in range(150):
        # with a preexec_fn Python forks, as PySpark does to start Java
        child = subprocess.run(["true"], preexec_fn=lambda: None, stderr=subprocess.PIPE)
        assert (child.returncode, child.stderr) == (0, b""), child
"""


def test_children_are_left_alone(two: LocalFabric) -> None:
    command = [sys.executable, "-c", PROGRAM, f"fabric://{two.address}", two.token]
    subprocess.run(command, check=True, timeout=120)
