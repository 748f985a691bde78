"""The disk of the metadata store is full: it is said so, what runs goes on, and nothing is lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import fabric
from fabric.control import control_pb2 as pb
from fabric.errors import StorageError
from fabric.plan.codec import encode
from fabric.testing import Gate
from tests.support.disk import mounted
from tests.support.local import LocalFabric, local_fabric
from tests.support.ordeal import Ordeal, gate, wait_idle
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(240)
N_AGENTS, SLOTS = 2, 4
FULL = "the disk of the metadata store is full; make room and start the coordinator again"


@contextmanager
def small_disk(running: LocalFabric) -> Iterator[Path]:
    """The store, and what it holds, on a disk of 8 MB of its own (tests run as root)."""
    store, aside = running.home / "coordinator", running.home / "aside"
    running.kill_coordinator()
    store.rename(aside)
    with mounted(store, "size=8m"):
        shutil.copytree(aside, store, dirs_exist_ok=True)
        running.start_coordinator()
        running.wait_attached()
        yield store


def fill(disk: Path) -> Path:
    """A file that takes all the room there is."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as out:
        room = os.statvfs(disk)
        for _ in range(room.f_bavail + 1):
            try:
                out.write(bytes(room.f_bsize))
            except OSError:
                return filler
    raise AssertionError("the disk never was full")


def large_plan(folder: Path) -> bytes:
    """A plan that needs room of its own, wherever the store's log ends."""
    rows = fabric.read_parquet(str(folder / "rows.parquet"))
    return encode(rows.filter(fabric.col("k").isin(list(range(1_000)))).plan)


def test_jobs_that_run_go_on_after_it(patient: dict[str, str], tmp_path: Path) -> None:
    with (
        local_fabric(N_AGENTS, slots=SLOTS, environ=patient) as running,
        small_disk(running) as disk,
        Gate() as closed,
    ):
        ordeal = Ordeal(running, tmp_path, target=gate(closed.name))
        ordeal.submit()
        wait_until(lambda: ordeal.running() == ordeal.status().stages[-1].n_tasks, 60.0)
        filler = fill(disk)
        request = pb.SubmitRequest(plan=large_plan(tmp_path), client_key="late")
        for _ in range(2):  # and it stays so
            with pytest.raises(StorageError, match=FULL) as caught:
                running.control.submit(request)
            assert str(running.home) not in str(caught.value)
        coordinator = running.coordinator
        assert coordinator is not None
        assert coordinator.process.wait(60) != 0
        said = coordinator.log.read_text()
        assert f"{FULL} (it is in {disk}: " in said
        assert "Traceback" not in said

        filler.unlink()
        running.kill_coordinator()
        running.start_coordinator()
        running.wait_attached()
        assert [job.job_id for job in running.control.list_jobs(pb.ListRequest()).jobs] == [
            ordeal.job_id
        ]
        closed.open()
        ordeal.finish()
        ordeal.check()
        assert ordeal.status().n_attempts == 0, "tasks that ran all the while were run again"
        late = running.control.submit(request)
        assert running.wait(late.job_id).state == pb.JOB_FINISHED
        for job_id in (ordeal.job_id, late.job_id):
            running.control.release(pb.JobRequest(job_id=job_id))
        wait_idle(running)
