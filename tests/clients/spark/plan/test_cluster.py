"""Plans on a standalone cluster of two workers: executors read files, agents get the rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fabric
from tests.support.local import LocalFabric
from tests.support.spark_cluster import SparkCluster

pytestmark = pytest.mark.timeout(600)
PROGRAM = """
import sys
import fabric
from fabric import col

master, address, token, folder = sys.argv[1:]
with fabric.connect(master, datasets=address, token=token) as session:
    rows = session.read_csv(folder + "/*.csv")
    late = rows.filter(col("delay") > 15).group_by("carrier").agg(fabric.count().alias("late"))
    late.write_dataset("late-on-a-cluster", keys="carrier")
    late.write_parquet(folder + "/late.parquet")
    back = session.read_dataset("late-on-a-cluster").sort("carrier").collect()
    assert back.equals(late.sort("carrier").collect())
    print(session, back.to_pylist())
"""


def test_files_and_datasets(
    tmp_path: Path, cluster: SparkCluster, two: LocalFabric, session: fabric.Session
) -> None:
    for part in range(3):
        lines = [f"{'AB'[n % 2]},{n}" for n in range(part * 10, part * 10 + 10)]
        (tmp_path / f"{part}.csv").write_text("\n".join(["carrier,delay", *lines, ""]))
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py"), cluster.master,
         f"fabric://{two.address}", two.token, str(tmp_path)],
        env=cluster.environment, capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    expected = [{"carrier": "A", "late": 7}, {"carrier": "B", "late": 7}]
    assert done.stdout == f"Session({cluster.master}) {expected}\n"
    assert session.read_dataset("late-on-a-cluster").sort("carrier").to_dicts() == expected
    assert fabric.read_parquet(tmp_path / "late.parquet").count() == 2
