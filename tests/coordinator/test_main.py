"""The coordinator as a process: ready line, token file, signals, restart, refusals."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fabric.control import control_pb2 as pb
from fabric.control.client import GrpcControl
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.main import run_coordinator
from fabric.errors import ConfigError, PeerLostError, StorageError
from fabric.plan.codec import encode
from fabric.plan.nodes import Plan, Scan
from fabric.plan.sources import FileSource

LINE = "coordinator listening on "


@pytest.fixture
def start(tmp_path: Path) -> Iterator[object]:
    running: list[subprocess.Popen[str]] = []

    def begin() -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "fabric.coordinator.main", "--home", tmp_path, "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "FABRIC_COORDINATOR_REST_PORT": "off"},
        )
        running.append(process)
        line = process.stdout.readline()
        assert line.startswith(LINE), process.stderr.read()
        return process, line.removeprefix(LINE).strip()

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def test_a_process_from_start_to_signal_and_again(start: object, tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        process, address = start()
        for name in ("secret", "token"):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        control = GrpcControl(address, (tmp_path / "token").read_text().strip())
        assert not control.list_jobs(pb.ListRequest()).jobs
        control.close()
        os.kill(process.pid, number)
        out, errors = process.communicate(timeout=120)
        assert (process.returncode, out) == (0, "")
        assert "Traceback" not in errors
    assert sorted(p.name for p in tmp_path.iterdir()) == ["coordinator", "secret", "token"]


def test_killed_outright_it_starts_again(start: object) -> None:
    process, _ = start()
    process.kill()
    process.wait(60)
    _, address = start()
    assert address.startswith("127.0.0.1:")


def test_it_ends_when_its_metadata_is_removed(
    start: object, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """And acknowledges nothing in between: nobody would ever read it again."""
    process, address = start()
    control = GrpcControl(address, (tmp_path / "token").read_text().strip(), find_s=0.0)
    control.list_jobs(pb.ListRequest())
    pq.write_table(pa.table({"k": [1]}), path := tmp_path_factory.mktemp("data") / "t.parquet")
    plan = Plan(Scan(FileSource("parquet", (str(path),)), pa.schema([("k", pa.int64())])))
    shutil.rmtree(tmp_path / "coordinator")
    with pytest.raises((StorageError, PeerLostError)):
        control.submit(pb.SubmitRequest(plan=encode(plan)))
    control.close()
    _, errors = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "files of the metadata store were removed or replaced while it was in use" in errors


def test_a_second_one_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    config = CoordinatorConfig(home=tmp_path, port=0, rest_port=None)
    ready, stop = threading.Event(), threading.Event()
    thread = threading.Thread(target=run_coordinator, args=(config, lambda _: ready.set(), stop))
    thread.start()
    assert ready.wait(60)
    with pytest.raises(StorageError, match="in use by another coordinator"):
        run_coordinator(config)
    stop.set()
    thread.join(60)
    assert not thread.is_alive()


def test_an_open_door_is_refused(tmp_path: Path) -> None:
    config = CoordinatorConfig(home=tmp_path, host="0.0.0.0", port=0)
    with pytest.raises(ConfigError, match=r"refusing to listen on '0.0.0.0' without TLS"):
        run_coordinator(config)
    assert list(tmp_path.iterdir()) == []
