"""The documented C++ and Java programs read a job's partitions from agents, with a token alone."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import fabric
from tests.support.foreign import BUILD_S, cpp_program, java_command
from tests.support.local import LocalFabric

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "clients" / "foreign"
BUILD = ROOT / "build" / "foreign"
TABLE = pa.table({"k": list(range(5_000)), "v": [str(n) for n in range(5_000)]})


def cpp(address: str) -> list[str]:
    return [str(cpp_program(EXAMPLES / "read_partitions.cpp", BUILD)), address]


def java(address: str) -> list[str]:
    host, port = address.removeprefix("grpc+tcp://").split(":")
    return [*java_command(EXAMPLES / "ReadPartitions.java", BUILD), host, port]


def run(command: Sequence[str], token: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "FABRIC_TOKEN": token}
    return subprocess.run(
        command, check=False, env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.timeout(BUILD_S)
@pytest.mark.parametrize("program", [cpp, java])
def test_a_job_is_read_by_a_stranger(
    program: object, two: LocalFabric, session: fabric.Session
) -> None:
    assert callable(program)
    command = program(session.flight_url)
    df = session.read_arrow(TABLE).exchange("k", n_partitions=3).named("by_k")
    with session.submit(df) as job:
        job.wait()
        done = run([*command, job.id, "by_k"], two.token)
        assert done.returncode == 0, done.stderr[-2000:]
        found = re.findall(r"partition (\d+): (\d+) rows of", done.stdout)
        assert {number for number, _ in found} == {"0", "1", "2"}
        assert sum(int(rows) for _, rows in found) == TABLE.num_rows
        refused = run([*command, job.id, "by_k"], "nonsense")
    assert refused.returncode != 0
    assert "the token is not one of this fabric" in refused.stderr
