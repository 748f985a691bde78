"""``fabric jobs``, ``agents``, ``top`` and ``config``, as processes beside a real fabric."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import fabric
from fabric import col
from fabric.clients.cli.jobs import picture
from fabric.clients.session.session import Session
from fabric.control import control_pb2 as pb
from fabric.errors import ExpressionError
from fabric.plan.nodes import Plan, Sink
from fabric.testing.gate import Gate
from tests.support import forked
from tests.support.local import LocalFabric, local_fabric
from tests.support.wait import wait_until

EVIL = "\x1b[2J[red]<b>\nnext"


@pytest.fixture(scope="module")
def local() -> Iterator[LocalFabric]:
    with local_fabric(1, slots=4) as running:
        yield running


@pytest.fixture
def session(local: LocalFabric) -> Iterator[Session]:
    with fabric.connect(f"fabric://{local.address}", token=local.token) as opened:
        yield opened


@pytest.fixture
def run(local: LocalFabric, tmp_path: Path) -> Any:
    def call(*arguments: str, code: int = 0) -> str:
        environ = {"FABRIC_ADDRESS": f"fabric://{local.address}", "FABRIC_TOKEN": local.token}
        said = tmp_path.with_suffix(".said")
        with said.open("wb") as out:
            process = forked.start(arguments, out, {**os.environ, **environ}, stays=False)
            ended = process.wait(120)
        text = said.read_text()
        assert ended == code, text
        assert "Traceback" not in text
        return text

    return call


def test_a_job_is_listed_shown_and_its_logs_told(session: Session, run: Any) -> None:
    job = session.read_arrow({"a": [1, 2, 3]}).group_by("a").count().submit(EVIL).wait()
    for command in (
        ("jobs",),
        ("jobs", "list"),
        ("jobs", "list", "--state", "finished", "-n", "1"),
    ):
        listed = run(*command)
        assert "\x1b" not in listed
        line = next(line for line in listed.splitlines() if job.id in line)
        assert "[2J[red]<b>" in line
        assert "finished" in line
    assert run("jobs", "list", "--state", "failed") == "no such jobs\n"
    assert "'nope' is not a state" in run("jobs", "list", "--state", "nope", code=2)
    shown = run("jobs", "show", job.id)
    assert "0.0" in shown
    assert "Partition(number=0" in shown
    logs = run("jobs", "logs", job.id).splitlines()
    assert "coordinator - job " in logs[0]
    assert any("task finished" in line and "rows_out=3" in line for line in logs)
    assert [line.split()[1] for line in logs] == sorted(line.split()[1] for line in logs)
    run("jobs", "release", job.id)
    assert "released" in run("jobs", "show", job.id)


def test_a_failed_job_tells_why(session: Session, run: Any) -> None:
    with pytest.raises(ExpressionError):
        session.read_arrow({"a": [0]}).select(r=col("a") // col("a")).submit("broken").wait()
    (job,) = (one for one in session.jobs() if one.name == "broken")
    assert "ExpressionError" in run("jobs", "show", job.id)
    assert any("task failed" in line for line in run("jobs", "logs", job.id).splitlines())


def test_unknown_jobs_and_agents(run: Any) -> None:
    for command in (("show", "job-0"), ("logs", "job-0"), ("restart", "job-0"), ("cancel", "../x")):
        assert "there is no job" in run("jobs", *command, code=1)
    run("agents", "drain", "nobody", code=1)


def test_agents_and_top(local: LocalFabric, run: Any) -> None:
    for command in (("agents",), ("agents", "list")):
        assert local.agent_id(0) in run(*command)
    picture = run("top", "--once")
    assert picture.startswith("1 agents, ")
    assert "of 4 slots busy" in picture
    assert "agent attached" in picture


def test_top_leaves_out_what_is_gone(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(**options: bool) -> str:
        console = Console(width=300, file=io.StringIO())
        console.print(picture(session, **options))
        return console.file.getvalue()

    with Gate() as gate:
        held = session.submit(Plan(Sink(session.read_arrow({"a": [1]}).plan.root, gate.target)))
        held.cancel()
    lost = pb.AgentStatus(agent_id="agent-gone", state="failed", slots=99)
    found = session.control.list_agents
    monkeypatch.setattr(
        session.control, "list_agents",
        lambda asked: pb.AgentList(agents=[*found(asked).agents, *([lost] if asked.lost else [])]),
    )  # fmt: skip
    head, _, jobs = shown().partition("when")[0].partition("\n")
    assert head.split(",")[:2] == ["1 agents", " 0 of 4 slots busy"]
    assert "agent-gone" not in jobs
    assert held.id not in jobs
    everything = shown(everything=True).partition("when")[0]
    assert "agent-gone" in everything
    assert held.id in everything
    assert everything.startswith("1 agents, 0 of 4 slots busy")


def test_checkpoints_lie_where_the_session_says(session: Session, run: Any, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    session.checkpoints(interval_s=0.2, folder=folder, retained=1_000)
    made = fabric.streams.generator(rows_per_s=1_000, n_splits=1, session=session)
    job = made.write_stream(fabric.streams.to_blackhole(), parallelism=1)
    try:
        wait_until(lambda: any(one.state == "published" for one in job.checkpoints()), 60)
        assert os.listdir(folder) == [job.id]
        assert "published" in run("checkpoints", "list", job.id)
        (first, *_) = run("checkpoints", "list", "--folder", str(folder)).splitlines()[1:]
        number = first.split()[1]
        assert first.split()[0] == job.id
        assert run("checkpoints", "show", job.id, number).splitlines()[1].split()[0] == number
    finally:
        job.cancel().release()
    wait_until(lambda: os.listdir(folder) == [])


def test_datasets(session: Session, run: Any) -> None:
    assert "there are no datasets" in run("datasets")
    session.read_arrow({"a": [1, 2, 3]}).write_dataset("some", keys="a", n_partitions=2)
    (line,) = [line for line in run("datasets").splitlines() if "some" in line]
    assert line.replace("│", " ").split() == ["some", "1", "3", "2", "1", "0", "a"]
    session.drop_dataset("some")


def test_config_explains_itself(run: Any, tmp_path: Path) -> None:
    assert "nothing is set" not in run("config", "--explain")
    (tmp_path / "fabric.toml").write_text("task_slots = 7\n[coordinator]\nretain_s = 60\n")
    told = run("config", "--home", str(tmp_path))
    assert "agent.slots = 7\n  tasks at a time\n" in told
    assert f"from {tmp_path}/fabric.toml: task_slots, default 4" in told
    assert "coordinator.retain_s = 60.0" in told
    assert "adaptive" not in told
    everything = run("config", "--explain", "--home", str(tmp_path))
    for key in ("agent.memory = off", "adaptive.skew_factor = 4.0", "coordinator.port = 6123",
                "FABRIC_HEARTBEAT_INTERVAL", "agent.unix_sockets = true"):  # fmt: skip
        assert key in everything
    (tmp_path / "fabric.toml").write_text("[agent]\nslot = 7\n")
    assert "agent.slot is unknown; did you mean agent.slots" in run(
        "config", "--home", str(tmp_path), code=1
    )


def test_restart_and_drain(local: LocalFabric, session: Session, run: Any) -> None:
    job = session.read_arrow({"a": [1, 2, 3]}).sort("a").submit("again").wait()
    node = job.status.stages[-1].node_path
    assert "finished, 3 rows" in run("jobs", "restart", job.id, "--from", node, "--wait")
    assert "finished, 3 rows" in run("jobs", "restart", job.id, "--wait")
    assert job.collect().to_pydict() == {"a": [1, 2, 3]}
    run("jobs", "restart", job.id, "--from", "no/such/node", code=1)
    agent = local.agent_id(0)
    assert f"agent {agent}: draining" in run("agents", "drain", agent)
    assert "draining" not in run("agents", "drain", agent, "--undo")
