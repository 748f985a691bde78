"""Savepoints that releases of Fabric have written, and how a stream goes on from one.

    python -m tests.golden.golden_savepoints     # those of this release: tests/golden/savepoints

One job: `take` runs a program of `tests.support.named_streams` for a part of its rows and stops it
with a savepoint; `differing_after` starts it from there, and says how all that both have put out
differs from DuckDB's rows.

    <release>/<kind>/savepoint/SAVEPOINT ...     the savepoint
    <release>/<kind>/published.parquet           what the program had put out before
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import fabric
from fabric.checkpoint.savepoints import Savepoints
from fabric.config import StateBackend
from tests.support.named_streams import KINDS, differing, generated
from tests.support.wait import wait_until

RELEASES = Path(__file__).parent / "savepoints"
PROGRAMS = ("count", "session", "top", "process")
_NAME = "golden"
_ROWS_PER_S = 1_000
"""`named_streams.differing` knows the event times of this rate."""
_N_ROWS = 100_000
"""Far more than a slow machine comes to before the program is stopped."""


def take(kind: str, folder: Path, state: StateBackend = "memory") -> None:
    """Put the savepoint of a program that has put out some rows into `folder`."""
    with tempfile.TemporaryDirectory() as work, fabric.connect() as session:
        root, out = Path(work) / "checkpoints", Path(work) / "out"
        session.checkpoints(interval_s=0.2, folder=root, state=state, state_memory="1 B")
        rows = KINDS[kind][0](generated(session, _ROWS_PER_S, _N_ROWS))
        job = rows.write_stream(str(out), name=_NAME, parallelism=2)
        wait_until(lambda: bool(list(out.glob("*.parquet"))), 60)
        job.stop(savepoint=_NAME)
        assert job.status.stopped_at > 0  # it did not come to its end
        Savepoints(root).export(_NAME, folder / "savepoint")
        tables = [pq.read_table(path) for path in sorted(out.glob("*.parquet"))]
        pq.write_table(pa.concat_tables(tables), folder / "published.parquet")


def differing_after(kind: str, folder: Path, state: StateBackend, parallelism: int = 3) -> str:
    """Go on from the savepoint in `folder` to the end; nothing when all rows are there once."""
    with tempfile.TemporaryDirectory() as work:
        root, out = Path(work) / "checkpoints", Path(work) / "out"
        with fabric.connect(parallelism=parallelism) as session:
            session.checkpoints(interval_s=0.2, folder=root, state=state, state_memory="1 B")
            rows = KINDS[kind][0](generated(session, n_rows=_N_ROWS))
            job = rows.write_stream(
                str(out), name=_NAME, parallelism=parallelism, restore=str(folder / "savepoint")
            )
            job.wait()
            assert job.status.stream.checkpoint > 0
        rest = sum(pq.read_metadata(path).num_rows for path in out.glob("*.parquet"))
        assert rest  # it was not at its end
        shutil.copy(folder / "published.parquet", out)
        return differing(kind, out, _N_ROWS)


if __name__ == "__main__":
    for program in PROGRAMS:
        target = RELEASES / fabric.__version__ / program
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        take(program, target)
