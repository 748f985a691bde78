"""The folder of checkpoints is full, read-only or away while a stream runs.

The checkpoint fails with its reason, the job lives, the last good one stays, and once the folder is
well again so is the next checkpoint; what comes out in the end is as if nothing had been.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.io.readers import stream_schema
from fabric.plan.nodes import Sink, StreamScan
from fabric.plan.sources import GeneratorStream
from fabric.plan.targets import StreamFileTarget
from tests.support.disk import mounted
from tests.support.embedded import EmbeddedFabric, embedded_pair
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(240)
SOURCE = GeneratorStream(n_splits=3, rows_per_s=4_000)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB of its own (tests run as root)."""
    with mounted(tmp_path / "disk", "size=2m") as disk:
        yield disk


class Running:
    """An endless stream into files, and its checkpoints on `disk`."""

    def __init__(self, fabric: EmbeddedFabric, out: Path) -> None:
        self._fabric, self.out = fabric, out
        scan = StreamScan(SOURCE, stream_schema(SOURCE), path="made")
        plan = Sink(scan, StreamFileTarget("parquet", str(out)), path="out")
        self._job = fabric.submit(plan, parallelism=3)
        self.goes_on()

    def goes_on(self) -> None:
        """Two more checkpoints are published, and the job runs."""
        first = self.newest()
        wait_until(lambda: self.newest() >= first + 2, 60)
        assert self.state() == pb.JOB_RUNNING

    def fails(self, reason: str, meanwhile: Callable[[], object] = int) -> None:
        """Checkpoints are given up for that reason until two in a row were; the job runs."""

        def failed() -> bool:
            meanwhile()
            ended = [one for one in self._told() if one.state != "under way"]
            return all(one.state == "aborted" and reason in one.reason for one in ended[-2:])

        wait_until(failed, 60)
        assert self.state() == pb.JOB_RUNNING

    def lose(self, i: int) -> None:
        """An agent leaves: all goes back to the last good checkpoint."""
        self._fabric.agents[i].close()

    def finish(self) -> None:
        """What is seen is a beginning of each split, each row once."""
        self._fabric.control.cancel(pb.JobRequest(job_id=self._job))
        wait_until(lambda: self.state() == pb.JOB_CANCELLED, 60)
        table = ds.dataset(self.out).to_table()
        for split in range(SOURCE.n_splits):
            rows = table.filter(ds.field("split") == split)["row"].to_pylist()
            assert rows
            assert sorted(rows) == list(range(len(rows)))

    def newest(self) -> int:
        return max((one.checkpoint for one in self._told() if one.state == "published"), default=0)

    def state(self) -> pb.JobState:
        return self._fabric.control.status(pb.JobRequest(job_id=self._job)).state

    def _told(self) -> list[pb.CheckpointStatus]:
        asked = pb.CheckpointsRequest(job_id=self._job)
        return list(self._fabric.control.list_checkpoints(asked).checkpoints)


@contextmanager
def running(disk: Path, out: Path) -> Iterator[Running]:
    (folder := disk / "checkpoints").mkdir()
    config = CoordinatorConfig(checkpoint=CheckpointConfig(folder=str(folder), interval_s=0.2))
    with embedded_pair(3, slots=4, config=config) as made:
        yield Running(made, out)


def fill(disk: Path) -> None:
    """Have a file there that takes all the room, also what older checkpoints leave."""
    with suppress(OSError), (disk / "filler").open("ab", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


def test_a_full_folder(disk: Path, tmp_path: Path) -> None:
    with running(disk, tmp_path / "out") as job:
        job.fails("the disk of the checkpoint folder is full", partial(fill, disk))
        subprocess.run(["mount", "-o", "remount,size=16m", disk], check=True)
        job.goes_on()
        (disk / "filler").unlink()
        subprocess.run(["mount", "-o", "remount,size=2m", disk], check=True)
        job.fails("the disk of the checkpoint folder is full", partial(fill, disk))
        job.lose(2)  # the last good checkpoint is there
        (disk / "filler").unlink()
        job.goes_on()
        job.finish()


def test_a_read_only_folder(disk: Path, tmp_path: Path) -> None:
    with running(disk, tmp_path / "out") as job:
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        job.fails("the checkpoint folder is read-only")
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        job.goes_on()
        job.finish()


def test_a_folder_that_is_away_for_a_while(disk: Path, tmp_path: Path) -> None:
    with running(disk, tmp_path / "out") as job:
        folder = disk / "checkpoints"
        folder.rename(disk / "elsewhere")
        job.fails("the checkpoint folder, or the job's part of it, is not there")
        (disk / "elsewhere").rename(folder)
        job.goes_on()
        job.lose(2)
        job.goes_on()
        job.finish()
