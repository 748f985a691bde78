"""Disks to spill to that are full, and spilled files that are damaged: jobs end, agents don't."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import DataFrame
from fabric.clients.demo.checksum import checksum
from fabric.errors import PartitionLostError, StorageError
from tests.support.disk import mounted
from tests.support.files import files_in
from tests.support.local import LocalFabric, local_fabric
from tests.support.wait import wait_until

N_ROWS = 24 << 20  # 192 MiB, the edges of the agent have 115
Told = Callable[..., None]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    words = np.random.default_rng(seed=1).integers(0, 1 << 62, N_ROWS)
    pq.write_table(pa.table({"n": words}), path, use_dictionary=False, row_group_size=1 << 18)
    return path


@contextmanager
def tight(spill: Path) -> Iterator[tuple[LocalFabric, fabric.Session]]:
    """One agent with little memory that spills there."""
    with local_fabric(1, options=["--memory", "384MiB", "--spill", str(spill)]) as running:
        with fabric.connect(f"fabric://{running.address}", token=running.token) as session:
            yield running, session
        running.agents[0].check()


def spilled(folder: Path) -> list[Path]:
    return [f for f in files_in(folder) if f.name != "lock"]


def descriptors(running: LocalFabric) -> int:
    return len(os.listdir(f"/proc/{running.agents[0].process.pid}/fd"))


@pytest.mark.parametrize("verb", ["exchange", "sort"])
@pytest.mark.parametrize("options", ["size=32m", "size=1g,nr_inodes=4"])
def test_a_full_disk_fails_the_job_and_the_agent_lives(
    rows: Path, tmp_path: Path, told: Told, options: str, verb: str
) -> None:
    """It has no room from the beginning, or says so when a file is made."""
    with mounted(tmp_path / "small", options) as disk, tight(disk) as (running, session):
        few = session.read_arrow(pa.table({"n": [3, 1, 2]}))
        assert getattr(few, verb)("n").count() == 3
        before = descriptors(running)
        frame = session.read_parquet(str(rows))
        with pytest.raises(StorageError) as caught:
            getattr(frame, verb)("n").named("much").collect()
        told(caught.value, "spill", running.agent_id(0))
        assert str(disk) not in str(caught.value)
        wait_until(lambda: not spilled(disk), 60.0)
        wait_until(lambda: works(getattr(few, verb)("n")), 60.0)
        wait_until(lambda: descriptors(running) <= before + 8, 60.0)


def works(frame: DataFrame) -> bool:
    """False while what the job before has made is there: there may be no room for another."""
    try:
        return frame.count() == 3
    except StorageError:
        return False


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(len(data) // 2, len(data), 1 << 16):
        data[at] ^= 0x10
    path.write_bytes(data)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 3)


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [flip, cut, remove])
def test_damaged_files_are_found_and_the_agent_lives(
    rows: Path, tmp_path: Path, told: Told, damage: Callable[[Path], None]
) -> None:
    with tight(tmp_path) as (running, session):
        frame = session.read_parquet(str(rows)).exchange("n").named("much")
        with session.submit(frame) as job:
            job.wait(120.0)
            files = spilled(tmp_path)
            assert files
            for file in files:
                damage(file)
            with pytest.raises(PartitionLostError) as caught:
                job.collect()
            told(caught.value, running.agent_id(0))
            assert str(tmp_path) not in str(caught.value)
        wait_until(lambda: not spilled(tmp_path), 60.0)
        with session.submit(frame) as job:  # what was damaged hurts nobody else
            job.wait(120.0)
            assert checksum(job.collect()) == checksum(pq.read_table(rows))
