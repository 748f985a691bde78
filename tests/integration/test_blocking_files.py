"""Named pipes, devices and mounts that hang: refused or given up by name, and others go on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import fabric
from fabric.errors import DataError, FabricError
from fabric.plan.nodes import Scan, Sink
from fabric.plan.places import FileFormat
from fabric.plan.sources import FileSource
from fabric.testing import Gate
from tests.support.local import LocalFabric, local_fabric
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(180)
STUCK_S = 5
SCHEMA = pa.schema([("k", pa.int64())])
FORMATS: tuple[FileFormat, ...] = ("csv", "json", "parquet", "ipc")
N_PIPES = 20


@pytest.fixture(scope="module")
def one() -> Iterator[LocalFabric]:
    """One agent with one slot, which is soon impatient."""
    with local_fabric(1, slots=1, environ={"FABRIC_AGENT_STUCK_S": str(STUCK_S)}) as running:
        yield running


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("k\n" + "".join(f"{n}\n" for n in range(1_000)))
    return path


def scan(path: Path, format: FileFormat = "csv") -> Scan:
    """What a client sends that has not looked at the file."""
    return Scan(FileSource(format, (str(path),)), SCHEMA, path="scan_1")


def error_of(one: LocalFabric, plan: Scan) -> str:
    with pytest.raises(FabricError) as caught:
        one.collect(plan)
    return str(caught.value)


def test_twenty_named_pipes_hold_nobody_up(one: LocalFabric, rows: Path, tmp_path: Path) -> None:
    pipes = [tmp_path / f"pipe-{n}" for n in range(N_PIPES)]
    for pipe in pipes:
        os.mkfifo(pipe)
    plans = [scan(pipe, FORMATS[n % len(FORMATS)]) for n, pipe in enumerate(pipes)]
    with ThreadPoolExecutor(N_PIPES) as pool:
        errors = [pool.submit(error_of, one, plan) for plan in plans]
        for _ in range(3):
            assert one.collect(scan(rows)).num_rows == 1_000
        for pipe, error in zip(pipes, errors, strict=True):
            assert f"{pipe} is a named pipe, and only regular files are read" in error.result(60)


@pytest.mark.parametrize("format", FORMATS)
def test_a_device_is_refused(one: LocalFabric, format: FileFormat) -> None:
    error = error_of(one, scan(Path("/dev/zero"), format))
    assert "/dev/zero is a device, and only regular files are read" in error


@pytest.mark.parametrize("format", ["csv", "parquet", "ipc"])
def test_a_pipe_in_place_of_a_planned_file_is_refused(
    format: str, one: LocalFabric, tmp_path: Path
) -> None:
    with fabric.connect(f"fabric://{one.address}", token=one.token) as session, Gate() as gate:
        path = tmp_path / f"x.{'arrow' if format == 'ipc' else format}"
        getattr(fabric.DataFrame({"k": [1]}), f"write_{format}")(path)
        first = one.submit(Sink(scan(path, format), gate.target))  # type: ignore[arg-type]
        planned = getattr(session, f"read_{format}")(path).write_csv(tmp_path / "out", wait=False)
        os.mkfifo(pipe := tmp_path / "pipe")
        pipe.replace(path)  # the first job may open the file now: there is always one
        gate.open()
        with pytest.raises(DataError, match=r"/x\.\w+ is a named pipe"):
            planned.wait()
        with suppress(DataError):  # it may have come to its file before
            one.wait(first)


def test_a_mount_that_hangs_fails_a_task_by_the_files_name(one: LocalFabric, rows: Path) -> None:
    one.kill(0)
    one.faults["agent 0"] = "file.opening:1:hang"
    one.restart(0)
    assert f"reading {rows} did not go on for {STUCK_S} s" in error_of(one, scan(rows))
    assert one.collect(scan(rows)).num_rows == 1_000  # in the slot of the other


def test_an_agent_that_does_not_turn_ends_and_says_why(one: LocalFabric, rows: Path) -> None:
    one.kill(0)
    one.faults["agent 0"] = "agent.turning:6:hang"
    one.restart(0)
    agent = one.agents[0]
    wait_until(lambda: agent.process.poll() is not None)
    assert agent.process.poll() == 75
    log = agent.log.read_text()
    assert f"the agent's thread has not turned for {STUCK_S} s: this process ends" in log
    assert "in _loop" in log
    assert "agent.turning" in log
    one.restart(0)
    assert one.collect(scan(rows)).num_rows == 1_000
