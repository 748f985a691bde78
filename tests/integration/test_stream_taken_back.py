"""A stream that had failed and is restarted: what came after its checkpoint is seen once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import streams
from fabric.errors import ExpressionError
from tests.support.damage import damaged_when_read, flip
from tests.support.wait import wait_until


def published(job: fabric.Job) -> int:
    """The newest checkpoint whose rows are out."""
    return max((one.checkpoint for one in job.checkpoints() if one.state == "published"), default=0)


def flip_manifest(folder: Path) -> None:
    flip(folder / "MANIFEST", (folder / "MANIFEST").stat().st_size - 2)


def test_a_restart_takes_back_what_a_damaged_checkpoint_published(tmp_path: Path) -> None:
    target, fails = tmp_path / "out", tmp_path / "fails"

    class Fails(fabric.Process):
        def on_rows(self, ctx: Any, key: Any, rows: pa.RecordBatch) -> list[dict[str, int]]:
            if fails.exists():
                raise ValueError("as it was told")
            return [{"row": row} for row in rows["row"].to_pylist()]

    with fabric.connect(parallelism=1) as session:
        session.checkpoints(interval_s=0.2)
        made = streams.generator(rows_per_s=2_000, n_splits=1, session=session)
        job = made.process(Fails(), keys="key", schema={"row": "int64"}).write_stream(target)
        wait_until(lambda: published(job) > 2)
        fails.touch()
        with pytest.raises(ExpressionError, match="as it was told"):
            job.wait()
        newest = published(job)
        fails.unlink()
        with damaged_when_read(flip_manifest):
            job.restart()
            wait_until(lambda: published(job) > newest + 1)
        job.cancel()
        kinds = [event.kind for event in job.events()]
    assert "OUTPUT IS TAKEN BACK, its rows come again" in kinds
    rows = [row for path in target.iterdir() for row in pq.read_table(path)["row"].to_pylist()]
    assert sorted(rows) == list(range(len(rows)))
