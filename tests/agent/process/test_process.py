"""Agent processes against a real coordinator process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fabric.clients.demo.checksum import checksum, rows
from fabric.control import control_pb2 as pb
from fabric.errors import ExpressionError
from fabric.plan.expr import Agg, Alias, Call, Column
from fabric.plan.nodes import Aggregate, Exchange, Node, Scan, Select, Sink
from fabric.plan.sources import FileSource
from fabric.plan.targets import FileTarget
from fabric.testing import Gate
from tests.support.local import SOON, LocalFabric, local_fabric
from tests.support.wait import wait_until

N_ROWS = 200_000
TABLE = pa.table({"k": [i % 7 for i in range(N_ROWS)], "v": range(N_ROWS)})
RSS_MAX = 220 << 20


@pytest.fixture(scope="module")
def fabric() -> Iterator[LocalFabric]:
    with local_fabric(2, environ=SOON) as running:
        yield running


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    path = tmp_path_factory.mktemp("data") / "rows.parquet"
    pq.write_table(TABLE, path, row_group_size=10_000)
    return Scan(FileSource("parquet", (str(path),)), TABLE.schema)


def counted(scan: Scan) -> Aggregate:
    return Aggregate(scan, (Column("k"),), (Alias(Agg("count", None), "n"),))


def answer() -> list[tuple[int, int]]:
    return [(k, len(range(k, N_ROWS, 7))) for k in range(7)]


def test_rows_cross_between_agents(fabric: LocalFabric, scan: Scan) -> None:
    assert rows(fabric.collect(counted(scan))) == answer()
    shuffled = fabric.collect(Exchange(scan, "hash", ("k",)))
    assert checksum(shuffled) == checksum(TABLE)
    wait_until(lambda: sum(agent.stored_bytes for agent in fabric.attached()) == 0)


def test_agents_of_one_host_use_unix_sockets(fabric: LocalFabric, scan: Scan) -> None:
    moved = Exchange(scan, "hash", ("k",), 2)  # not coalesced, as somebody asked for it
    assert rows(fabric.collect(replace(counted(scan), input=moved))) == answer()
    sockets = list(fabric.home.glob("agents/*/run/*.sock"))
    assert len(sockets) == 2
    used = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    joined = [fields[-1] for fields in used if fields[5] == "03"]  # connected
    assert all(str(path) in joined for path in sockets)


def test_an_idle_agent_is_small_and_has_no_pandas(fabric: LocalFabric, scan: Scan) -> None:
    fabric.collect(counted(scan))
    wait_until(lambda: all(a.rss_bytes <= RSS_MAX for a in fabric.attached()), timeout_s=60)
    maps = Path(f"/proc/{fabric.agents[0].process.pid}/maps").read_text()
    assert "datafusion" in maps
    assert "pandas" not in maps


def held(scan: Node, gate: Gate) -> Sink:
    return Sink(scan, gate.target)


def test_what_a_killed_agent_was_at_is_done_elsewhere(fabric: LocalFabric, scan: Scan) -> None:
    with Gate() as gate:
        job = fabric.submit(held(scan, gate))
        wait_until(lambda: sum(a.running_tasks for a in fabric.attached()) == 2)
        lost = fabric.agent_id(1)
        fabric.kill(1)
        wait_until(lambda: status_of(fabric, job).n_attempts == 1)
        gate.open()
        (error,) = fabric.wait(job).errors
        assert (error.kind, error.agent) == ("PeerLostError", lost)
        assert rows(fabric.collect(counted(scan))) == answer()
    fabric.restart(1)
    assert fabric.agent_id(1) == lost
    wait_until(lambda: not any(agent.running_tasks for agent in fabric.attached()))


def test_a_paused_agent_is_lost_and_comes_back(fabric: LocalFabric, scan: Scan) -> None:
    with Gate() as gate:
        job = fabric.submit(held(scan, gate))
        wait_until(lambda: sum(a.running_tasks for a in fabric.attached()) == 2)
        fabric.pause(0)
        try:
            wait_until(lambda: status_of(fabric, job).n_attempts == 1)
        finally:
            fabric.resume(0)
        gate.open()
        (error,) = fabric.wait(job).errors
        assert "it sent no heartbeat for" in error.message
    fabric.wait_attached()
    wait_until(lambda: not any(agent.running_tasks for agent in fabric.attached()))
    assert rows(fabric.collect(counted(scan))) == answer()


def test_a_job_goes_on_when_its_coordinator_comes_back(fabric: LocalFabric, scan: Scan) -> None:
    with Gate() as gate:
        job = fabric.submit(held(scan, gate))
        wait_until(lambda: sum(a.running_tasks for a in fabric.attached()) == 2)
        fabric.kill_coordinator()
        fabric.start_coordinator()
        fabric.wait_attached()
        gate.open()
        assert fabric.wait(job).result_rows == N_ROWS
    assert rows(fabric.collect(counted(scan))) == answer()


def status_of(fabric: LocalFabric, job: str) -> pb.JobStatus:
    return next(fabric.control.watch(pb.JobRequest(job_id=job)))


def test_files_are_published_whole_or_not_at_all(
    fabric: LocalFabric, scan: Scan, tmp_path: Path
) -> None:
    done = FileTarget("parquet", str(tmp_path / "done"), single=False)
    fabric.wait(fabric.submit(Sink(scan, done)))
    assert checksum(pq.read_table(tmp_path / "done")) == checksum(TABLE)
    divided = Call("divide", (Column("v"), Call("subtract", (Column("v"), Column("v")))))
    broken = Sink(
        Select(scan, (Alias(divided, "x"),)),
        FileTarget("parquet", str(tmp_path / "broken"), single=False),
    )
    with pytest.raises(ExpressionError, match="division by zero"):
        fabric.wait(fabric.submit(broken))
    wait_until(lambda: os.listdir(tmp_path) == ["done"])


def test_sigterm_ends_with_zero_and_the_agent_can_come_back(
    fabric: LocalFabric, scan: Scan
) -> None:
    with Gate() as gate:
        job = fabric.submit(held(scan, gate))
        wait_until(lambda: sum(a.running_tasks for a in fabric.attached()) == 2)
        assert fabric.terminate(0) == 0
        gate.open()
        (error,) = fabric.wait(job).errors
        assert "it left" in error.message
    fabric.restart(0)
    assert rows(fabric.collect(counted(scan))) == answer()


def start_agent(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fabric.clients.cli", "agent", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_wrong_secret_ends_the_agent_with_a_message(fabric: LocalFabric, tmp_path: Path) -> None:
    ended = start_agent("--home", str(tmp_path), "--coordinator", fabric.address)
    assert ended.returncode == 1
    assert "fabric: AuthError: " in ended.stderr
    assert "Traceback" not in ended.stderr


def test_two_agents_can_not_share_a_folder(fabric: LocalFabric) -> None:
    folder = fabric.agents[0].log.parent
    there = ("--home", str(fabric.home), "--name", folder.name)
    ended = start_agent(*there, "--coordinator", fabric.address)
    assert ended.returncode == 1
    assert f"another agent runs in {folder}" in ended.stderr


def test_a_traceback_is_shown_on_demand(fabric: LocalFabric, tmp_path: Path) -> None:
    ended = start_agent("--debug", "--home", str(tmp_path), "--coordinator", fabric.address)
    assert ended.returncode == 1
    assert "Traceback" in ended.stderr
    assert "AuthError" in ended.stderr


def test_words_that_end_the_options_are_none_of_its_own(
    fabric: LocalFabric, tmp_path: Path
) -> None:
    ended = start_agent("--home", str(tmp_path), "--coordinator", fabric.address, "--")
    assert ended.returncode == 1
    assert ended.stderr.startswith("fabric: AuthError: ")


def test_nothing_is_left_of_a_fabric() -> None:
    before = set(os.listdir("/tmp"))
    with local_fabric(1) as running:
        assert running.coordinator is not None
        pids = [running.agents[0].process.pid, running.coordinator.process.pid]
        home = running.home
        assert running.attached()[0].state == "active"
        assert running.control.list_jobs(pb.ListRequest()).jobs == []
    assert not home.exists()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    left = {name for name in set(os.listdir("/tmp")) - before if name.startswith("fabric-test-")}
    assert home.name not in left


@pytest.mark.parametrize("module", ["fabric.agent.process.main", "fabric.agent.slot.forkserver"])
def test_the_allocators_are_chosen_before_pyarrow_is_there(module: str) -> None:
    """Arrow reads their settings when it is imported: too early, and a row of 64 MB costs 240 MB
    more of a bounded agent."""
    program = f"import sys, {module}; print('pyarrow' in sys.modules, 'numpy' in sys.modules)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False False\n", "")
