"""Agents die while checkpoints have only what changed: the results are DuckDB's all the same."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import fabric
from fabric import col, count, streams
from fabric.config import StateBackend
from fabric.io.readers.generator import rows
from fabric.plan.sources import GeneratorStream
from tests.support.files import files_in
from tests.support.local import local_fabric

N_ROWS, N_KEYS, N_TASKS = 1_000_000, 100_000, 2
SECONDS = 10
"""How long the source takes, if nothing stops it."""
START = datetime(2024, 5, 1, tzinfo=UTC)
ORACLE = "SELECT key, count(*) AS n, sum(row)::BIGINT AS total FROM made GROUP BY key"
OURS = """
SELECT key, n, total FROM '{}/*.parquet'
GROUP BY ALL HAVING sum(CASE WHEN row_kind IN ('+I', '+U') THEN 1 ELSE -1 END) > 0
"""
"""The last result of each key: each other one was taken back as often as it was put out."""


def made() -> pa.Table:
    """All rows of the source."""
    source = GeneratorStream(
        n_rows=N_ROWS,
        n_keys=N_KEYS,
        n_splits=N_TASKS,
        seed=5,
        start_us=int(START.timestamp()) * 10**6,
    )
    n = N_ROWS // N_TASKS
    parts = [rows(source, split, 0, n, source.start_us) for split in range(N_TASKS)]
    return pa.concat_tables([part.select(["key", "row"]) for part in parts])


@pytest.mark.parametrize("state", ["memory", "arrow"])
def test_groups_come_back_from_the_changes_of_many_checkpoints(
    tmp_path: Path, state: StateBackend
) -> None:
    kept = tmp_path / "kept"
    with (
        local_fabric(2, slots=1) as two,
        fabric.connect(f"fabric://{two.address}", token=two.token) as session,
    ):
        session.checkpoints(interval_s=0.2, state=state, state_memory="8 MB", folder=kept)
        source = streams.generator(
            n_rows=N_ROWS, n_keys=N_KEYS, n_splits=N_TASKS, seed=5, start=START, session=session,
            rows_per_s=N_ROWS // SECONDS,
        )  # fmt: skip
        results = source.group_by("key").agg(n=count(), total=col("row").sum()).changes()
        job = results.write_stream(streams.to_files(tmp_path / "out"), parallelism=N_TASKS)
        changes = []
        for agent, checkpoint in ((0, 4), (1, 9)):
            # a slow machine may have made fewer checkpoints when all rows are out
            while not (newest(job) >= checkpoint and most_changes(kept) > 1):
                if job.state not in ("queued", "running"):
                    break
                time.sleep(0.05)
            changes.append(most_changes(kept))
            two.kill(agent)
            two.restart(agent)
        job.wait(300.0)
        assert job.status.n_attempts > 0
        assert max(changes) > 1, "no checkpoint had changes of several"
    with duckdb.connect() as connection:
        connection.register("made", made())
        found = OURS.format(tmp_path / "out")
        assert connection.sql(f"({ORACLE}) EXCEPT ALL ({found})").fetchall() == []
        assert connection.sql(f"({found}) EXCEPT ALL ({ORACLE})").fetchall() == []


def newest(job: fabric.Job) -> int:
    """The newest checkpoint that is whole."""
    over = ("under way", "aborted")
    return max((c.checkpoint for c in job.checkpoints() if c.state not in over), default=0)


def most_changes(folder: Path) -> int:
    """Of how many files the groups in memory of a task are made, in some checkpoint, at most."""
    tasks = Counter(path.parent for path in files_in(folder) if "hot.groups-" in path.name)
    return max(tasks.values(), default=0)
