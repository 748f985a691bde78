"""Agents and coordinators that die, hang or are not there; secrets and tokens that are wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import col
from fabric.clients.demo.checksum import checksum
from fabric.clients.session import remote
from fabric.control import control_pb2 as pb
from fabric.control.client import GrpcControl
from fabric.errors import AuthError, ExternalError, PeerLostError
from fabric.plan.nodes import Plan, Sink
from fabric.security.tokens import Signer
from fabric.testing import Gate
from tests.support.local import SOON, LocalFabric, local_fabric
from tests.support.wait import wait_until

Told = Callable[..., None]
TABLE = pa.table({"k": range(5_000), "v": [n % 7 for n in range(5_000)]})
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def own() -> Iterator[LocalFabric]:
    """A fabric that a test may break."""
    with local_fabric(2) as running:
        yield running


def connect(running: LocalFabric) -> fabric.Session:
    return fabric.connect(f"fabric://{running.address}", token=running.token)


def held(session: fabric.Session, gate: Gate, parallelism: int) -> fabric.Job:
    """A job whose tasks have rows and wait at the gate."""
    df = session.read_arrow(TABLE).exchange("k", n_partitions=parallelism)
    sink = Sink(df.filter(col("v") >= 0).plan.root, gate.target)
    job = session.submit(Plan(sink), parallelism=parallelism)
    while job.status.stages[-1].running < parallelism:
        assert job.state == "running"
        time.sleep(0.02)
    return job


def submit(session: fabric.Session, frame: fabric.DataFrame, gate: Gate) -> fabric.Job:
    """A job whose sink waits at the gate."""
    return session.submit(Plan(Sink(frame.plan.root, gate.target)), parallelism=2)


def n_tasks_running(running: LocalFabric, agent_id: str) -> int:
    return sum(a.running_tasks for a in running.attached() if a.agent_id == agent_id)


def test_a_killed_agent(own: LocalFabric, tmp_path: Path) -> None:
    """What it was at is done by the others, and what it had is made again."""
    pq.write_table(TABLE, path := tmp_path / "t.parquet", row_group_size=1000)
    with connect(own) as session, Gate() as gate:
        frame = session.read_parquet(path).exchange("k")
        held = [submit(session, frame, gate) for _ in range(2)]
        wait_until(lambda: all(job.status.stages[0].finished == 2 for job in held))
        lost = own.agent_id(1)
        own.kill(1)
        wait_until(lambda: all(job.status.n_attempts > 0 for job in held))
        gate.open()
        for job in held:
            assert job.wait().status.result_rows == TABLE.num_rows
            assert {error.agent for error in job.status.errors} <= {lost, own.agent_id(0)}
        own.restart(1)
        assert len(session.agents()) == 2
        assert checksum(session.read_arrow(TABLE).exchange("k").collect()) == checksum(TABLE)


def test_tables_of_a_killed_agent(own: LocalFabric, told: Told) -> None:
    """A table of this process was sent to the agents: with one of them a part of it is gone."""
    with connect(own) as session, Gate() as gate:
        job = held(session, gate, 2)
        wait_until(lambda: all(n_tasks_running(own, own.agent_id(i)) == 1 for i in range(2)))
        own.kill(1)
        with pytest.raises(ExternalError, match="is not connected; start it again") as caught:
            job.wait()
        told(caught.value, own.agent_id(1), job.id)


def test_rows_of_a_killed_agent(
    own: LocalFabric, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished result that lay there is lost, and the error says so; a restart makes it again."""
    monkeypatch.setattr(remote, "_SEALED_S", 1.0)  # nobody comes back
    with connect(own) as session:
        job = session.submit(session.read_arrow(TABLE).exchange("k")).wait()
        own.kill(1)
        wait_until(lambda: len(session.agents()) == 1)
        with pytest.raises(ExternalError) as caught:
            job.collect()
        told(caught.value)
        assert own.agent_id(1) in str(caught.value) or job.id in str(caught.value)


def test_a_paused_agent(tmp_path: Path) -> None:
    pq.write_table(TABLE, path := tmp_path / "t.parquet", row_group_size=1000)
    with local_fabric(2, environ=SOON) as own, connect(own) as session, Gate() as gate:
        job = submit(session, session.read_parquet(path).exchange("k"), gate)
        wait_until(lambda: all(n_tasks_running(own, own.agent_id(i)) == 1 for i in range(2)))
        own.pause(0)
        wait_until(lambda: job.status.n_attempts > 0)
        assert any("no heartbeat" in error.message for error in job.status.errors)
        own.resume(0)
        wait_until(lambda: len(session.agents()) == 2)  # it comes back by itself
        gate.open()
        assert job.wait().status.result_rows == TABLE.num_rows


def test_a_killed_coordinator(own: LocalFabric) -> None:
    with connect(own) as session, Gate() as gate:
        job = held(session, gate, 2)
        own.kill_coordinator()
        own.start_coordinator()
        own.wait_attached()
        gate.open()
        assert job.wait().status.result_rows == TABLE.num_rows
        assert session.read_arrow(TABLE).count() == TABLE.num_rows


def test_nobody_there(told: Told) -> None:
    with pytest.raises(PeerLostError, match="is it running") as caught:
        fabric.connect("fabric://127.0.0.1:1", token="x")
    told(caught.value, "127.0.0.1:1", "fabric up")


def test_no_agent_there(told: Told) -> None:
    with local_fabric(0) as running:
        plan = fabric.read_arrow(TABLE).filter(col("k") > 1)
        with connect(running) as session, pytest.raises(ExternalError) as caught:
            session.submit(plan)
        told(caught.value, "no agent is attached", "fabric agent")


# ---- secrets and tokens


def test_a_wrong_token(two: LocalFabric, told: Told) -> None:
    for token in ("", "nonsense", Signer(b"x" * 32).token("submit", "me", 60.0, time.time())):
        with pytest.raises(AuthError, match="token") as caught:
            fabric.connect(f"fabric://{two.address}", token=token or "-")
        told(caught.value)
        assert not token or token not in str(caught.value)


def test_no_token_at_all(
    two: LocalFabric, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    monkeypatch.setenv("FABRIC_HOME", str(tmp_path))
    monkeypatch.delenv("FABRIC_TOKEN", raising=False)
    with pytest.raises(AuthError, match="FABRIC_TOKEN") as caught:
        fabric.connect(f"fabric://{two.address}")
    told(caught.value)


def test_an_old_token(two: LocalFabric, told: Told) -> None:
    old = two.signer.token("submit", "me", 60.0, time.time() - 3600.0)
    with pytest.raises(AuthError, match="expired") as caught:
        fabric.connect(f"fabric://{two.address}", token=old)
    told(caught.value)


def test_a_token_that_may_only_read(two: LocalFabric, told: Told) -> None:
    reader = two.signer.token("read", "me", 60.0, time.time())
    with closing(GrpcControl(two.address, reader)) as control:
        assert len(control.list_agents(pb.ListRequest()).agents) == 2
        with pytest.raises(AuthError, match="submit") as caught:
            control.submit(pb.SubmitRequest(plan=b""))
    told(caught.value)


def agent(home: Path, address: str) -> list[str]:
    """The command that starts one more agent."""
    command = [sys.executable, "-m", "fabric.clients.cli", "agent", "--home", str(home)]
    return [*command, "--name", "stranger", "--coordinator", address]


def agent_says(home: Path, address: str) -> str:
    """What an agent of `home` prints before it gives up; it must give up."""
    wide = {**os.environ, "COLUMNS": "500"}
    ended = subprocess.run(
        agent(home, address), check=False, capture_output=True, text=True, timeout=60, env=wide
    )
    assert ended.returncode == 1, ended
    assert "Traceback" not in ended.stderr + ended.stdout
    return ended.stderr


def test_an_agent_with_another_secret(two: LocalFabric, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "secret").write_bytes(os.urandom(32))
    (home / "secret").chmod(0o600)
    said = agent_says(home, two.address)
    assert "secret" in said, said
    assert len(two.attached()) == 2


def test_a_secret_that_others_can_read(two: LocalFabric, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    shutil.copy(two.home / "secret", home / "secret")
    (home / "secret").chmod(0o644)
    said = agent_says(home, two.address)
    assert str(home / "secret") in said
    assert "chmod 600" in said


def test_an_agent_without_a_coordinator_waits_and_says_so(two: LocalFabric) -> None:
    command = agent(two.home, "127.0.0.1:1")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
        try:
            assert waiting.stderr is not None
            said = waiting.stderr.readline()
            assert "no coordinator answers at 127.0.0.1:1" in said
        finally:
            waiting.terminate()
        assert waiting.wait(60) == 0
