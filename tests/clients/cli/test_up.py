"""``fabric up`` as a process: what it prints, running on it, stopping it, nothing left."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fabric
from fabric import Session, col, count
from fabric.clients.cli import up as up_module
from fabric.clients.cli.main import main
from fabric.config import FabricHome
from fabric.errors import AuthError, CancelledError, ExpressionError, PeerLostError
from fabric.plan.nodes import Plan, Sink
from fabric.testing.gate import Gate
from tests.support.wait import wait_until

ROWS = pa.table({"k": [f"k{i % 5}" for i in range(1000)], "x": list(range(1000))})


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _children(pid: int) -> list[int]:
    """Processes whose command line says that `pid` started them."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:  # it has just ended
                continue
            if any(pair == (b"--parent", b"%d" % pid) for pair in pairwise(words)):
                found.append(int(folder.name))
    return found


def _coordinator(pid: int) -> int:
    """The one among them."""
    (found,) = [
        child
        for child in _children(pid)
        if b"coordinator" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
    ]
    return found


class Up:
    """A running ``fabric up --agents 2``."""

    def __init__(self, home: Path) -> None:
        self.home, self.port = home, _free_port()
        self.out = home.with_suffix(".out")
        command = [sys.executable, "-m", "fabric.clients.cli", "up", "--home", str(home)]
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port), "--rest-port", "0", "--metrics-port", "0"],
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        wait_until(lambda: "Ctrl-C stops" in self.text() or self.process.poll() is not None)
        assert self.process.poll() is None, self.text()

    def text(self) -> str:
        return self.out.read_text()

    @property
    def address(self) -> str:
        return f"fabric://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return FabricHome(self.home).token.read_text().strip()

    @property
    def token_file(self) -> str:
        return str(FabricHome(self.home).token)

    def stop(self, how: int = signal.SIGINT) -> None:
        self.process.send_signal(how)
        self.process.wait(90)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    running = Up(tmp_path_factory.mktemp("up") / "home")
    yield running
    running.stop(signal.SIGTERM)
    assert running.process.returncode == 0, running.text()


@pytest.fixture
def session(up: Up) -> Iterator[Session]:
    with fabric.connect(up.address, token=up.token) as opened:
        yield opened


def test_prints_how_to_go_on(up: Up) -> None:
    assert f"{up.address} is up with 2 agents" in up.text()
    assert f"token   {up.home}/token" in up.text()
    assert f'session = fabric.connect("{up.address}"' in up.text()
    assert (up.home / "secret").stat().st_mode & 0o077 == 0


def test_rows_of_this_process_are_computed_there(session: Session) -> None:
    rows = fabric.read_arrow(ROWS)
    assert rows.filter(col("x") >= 500).count() == 500
    groups = rows.group_by("k").agg(count().alias("n")).sort("k").collect()
    assert groups.to_pydict() == {"k": [f"k{i}" for i in range(5)], "n": [200] * 5}
    assert len(session.datasets()) == 1  # uploaded once
    del rows
    fabric.DataFrame({"a": [1]}).count()
    assert len(session.datasets()) == 1  # the first one is dropped, the new one is there


def test_partitions_are_flight_streams(session: Session) -> None:
    import pyarrow.flight as fl

    job = (
        session.read_arrow(ROWS).exchange("k", n_partitions=4).named("by_k").submit("parts").wait()
    )
    parts = job.partitions()
    assert {part.number for part in parts} == set(range(4))
    assert len({part.locations[0] for part in parts}) == 2
    bearer = [(b"authorization", f"Bearer {session.token}".encode())]
    options = fl.FlightCallOptions(headers=bearer)
    n_rows = 0
    for part in parts:
        with fl.connect(part.locations[0]) as client:
            n_rows += client.do_get(fl.Ticket(part.ticket), options).read_all().num_rows
    assert n_rows == 1000
    assert job.collect().num_rows == 1000
    job.release()


def test_a_snippet_runs_as_it_is(session: Session) -> None:
    job = session.read_arrow(ROWS).submit("snippet").wait()
    code = job.partitions()[0].snippet() + "print(table.num_columns)\n"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "FABRIC_TOKEN": session.token},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "2\n"


def test_errors_come_back_as_they_were(session: Session) -> None:
    broken = session.read_arrow(ROWS).select(r=col("x") // (col("x") - col("x")))
    with pytest.raises(ExpressionError, match="zero") as caught:
        broken.collect()
    assert caught.value.where.agent.startswith("agent-")
    assert "Traceback" not in str(caught.value)


def test_datasets(session: Session, tmp_path: Path) -> None:
    job = session.read_arrow(ROWS).write_dataset("rows", keys="k", mode="overwrite")
    assert job.rows == 1000
    frame = session.read_dataset("rows")
    assert frame.count() == 1000
    assert frame.write_parquet(tmp_path / "out").rows == 1000
    assert session.read_parquet(tmp_path / "out").count() == 1000
    session.drop_dataset("rows")


def test_a_job_outlives_its_session(up: Up) -> None:
    with Gate() as gate:
        with fabric.connect(up.address, token=up.token) as first:
            scan = fabric.read_arrow(ROWS).plan.root
            held = first.submit(Plan(Sink(scan, gate.target)), "held")
            wait_until(lambda: held.state == "running")
        with fabric.connect(up.address, token=up.token) as second:
            assert second.job(held.id).state == "running"
            gate.open()
            job = second.job(held.id).wait(90)
            assert (job.state, job.rows) == ("finished", 1000)
            for name in second.datasets():
                second.drop_dataset(name)


def test_a_job_is_cancelled_from_outside(up: Up, session: Session) -> None:
    with Gate() as gate:
        held = session.submit(Plan(Sink(session.read_arrow(ROWS).plan.root, gate.target)), "held")
        there = ["--connect", up.address, "--token", up.token_file]
        assert main(["jobs", "cancel", held.id, *there]) == 0
        with pytest.raises(CancelledError):
            held.wait(90)


def test_a_wrong_token_is_refused(up: Up) -> None:
    with pytest.raises(AuthError, match="token"):
        fabric.connect(up.address, token="fab1.wrong.token")


def test_commands_on_it(up: Up, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = ["--connect", up.address, "--token", up.token_file]
    file = tmp_path / "job.py"
    file.write_text('import fabric\ndf = fabric.DataFrame({"a": [1, 2]})\n')
    assert main(["run", *there, str(file)]) == 0
    assert capsys.readouterr().out.endswith("2 rows\n")
    with fabric.connect(up.address, token=up.token) as session:
        job = session.read_arrow(ROWS).submit("listed").wait()
    assert main(["jobs", *there]) == 0
    assert f"{job.id}  listed" in capsys.readouterr().out
    assert main(["jobs", "show", job.id, *there]) == 0
    assert "Partition(number=0" in capsys.readouterr().out
    assert main(["jobs", *there, "release", job.id]) == 0
    assert "released" in capsys.readouterr().out
    assert main(["jobs", "cancel", "job-0", *there]) == 1
    assert "there is no job 'job-0'" in capsys.readouterr().err


def test_ctrl_c_stops_everything_and_a_kill_leaves_nothing(tmp_path: Path) -> None:
    """A home that was used before is up once its agents are."""
    for how in (signal.SIGINT, signal.SIGKILL):
        running = Up(tmp_path / "home")
        said = set(re.findall(r"agent +(\S+) at (\S+)", running.text()))
        with fabric.connect(running.address, token=running.token) as session:
            agents = session.agents()
        assert said == {(agent.agent_id, agent.address) for agent in agents}
        assert len(said) == 2
        assert {agent.state for agent in agents} == {"active"}
        assert len(_children(running.process.pid)) == 3
        running.stop(how)
        if how == signal.SIGINT:
            assert running.process.returncode == 0
            assert running.text().endswith("stopped\n")
            assert "Traceback" not in running.text()
            assert _children(running.process.pid) == []
        wait_until(lambda pid=running.process.pid: _children(pid) == [])


def test_what_dies_is_started_again_and_jobs_go_on(tmp_path: Path) -> None:
    running = Up(tmp_path / "home")
    with Gate() as gate, fabric.connect(running.address, token=running.token) as session:
        before = {agent.agent_id: agent.address for agent in session.agents()}
        os.kill(max(_children(running.process.pid)), signal.SIGKILL)
        wait_until(lambda: "agent 2 is started again" in running.text(), 60)
        assert (
            "agent 2 was killed by signal 9 (SIGKILL); it is started again in 1 s" in running.text()
        )

        def all_new() -> bool:
            agents = {
                one.agent_id: one.address for one in session.agents() if one.state == "active"
            }
            return agents.keys() == before.keys() and agents != before

        wait_until(all_new, 60)
        assert session.read_arrow(ROWS).group_by("k").count().collect().num_rows == 5
        held = session.submit(Plan(Sink(session.read_arrow(ROWS).plan.root, gate.target)), "held")
        wait_until(lambda: held.state == "running")
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(held.wait, 60)  # what it watches breaks off meanwhile
            os.kill(_coordinator(running.process.pid), signal.SIGKILL)
            wait_until(lambda: "the coordinator is started again" in running.text(), 60)
            gate.open()
            assert waiting.result().rows == 1000
        assert session.job(held.id).wait(60).state == "finished"
    shutil.rmtree(tmp_path / "home" / "coordinator")  # which it notices by itself
    assert running.process.wait(60) == 1
    assert "its metadata in " in running.text()
    assert "is gone: put it back, or start again to begin with none" in running.text()
    assert _children(running.process.pid) == []


class Process:
    """A process that ends with what a test says."""

    code: int | None = None

    def poll(self) -> int | None:
        return self.code


class Started(up_module.LocalProcesses):
    """A coordinator and agents without processes."""

    def __init__(self, n_agents: int, home: Path) -> None:
        super().__init__(FabricHome(home), _free_port())
        self._spawn("coordinator", [])
        for number in range(n_agents):
            self._spawn_agent(number)

    def _launched(self, kind: str, arguments: Sequence[str]) -> Any:
        return Process()

    def end(self, number: int, code: int) -> None:
        """0 is the coordinator."""
        self._running[number].process.code = code  # type: ignore[attr-defined]


def test_an_agent_is_started_again_at_most_so_often(tmp_path: Path) -> None:
    here, now, said = Started(2, tmp_path), 0.0, []
    for pause in (1, 2, 4, 8, 16):
        here.end(2, -9)
        assert here.mend(now) == [
            f"agent 2 was killed by signal 9 (SIGKILL); it is started again in {pause} s"
        ]
        assert here.mend(now + pause - 0.1) == []
        said += here.mend(now := now + pause)
        assert here.mend(now) == []
    assert said == ["agent 2 is started again"] * 5
    here.end(2, 3)
    assert here.mend(now) == [
        "agent 2 ended with code 3; it died 6 times in 10 minutes and is not started again; "
        "what it said is above"
    ]
    assert here.mend(now + 10_000) == []
    here.end(1, -11)
    assert here.mend(now) == [
        "agent 1 was killed by signal 11 (SIGSEGV); it is started again in 1 s"
    ]
    assert here.mend(now + 1) == ["agent 1 is started again"]
    here.end(1, 1)  # long ago is forgotten
    assert here.mend(now + 1_000) == ["agent 1 ended with code 1; it is started again in 1 s"]


def test_agents_that_were_stopped_stay_so_and_without_any_it_ends(tmp_path: Path) -> None:
    here = Started(2, tmp_path)
    here.end(1, 0)
    assert here.mend(0.0) == ["agent 1 was stopped, and stays so"]
    here.end(2, 0)
    with pytest.raises(PeerLostError, match="2 was stopped, and stays so\nno agent is left; what"):
        here.mend(1.0)
    here = Started(2, tmp_path)
    here.end(0, 0)
    with pytest.raises(PeerLostError, match="the coordinator was stopped, and stays so"):
        here.mend(0.0)


def test_a_coordinator_is_started_again_at_most_so_often(tmp_path: Path) -> None:
    here, now = Started(1, tmp_path), 0.0
    for pause in (1, 2, 4, 8, 16):
        here.end(0, -9)
        assert here.mend(now) == [
            f"the coordinator was killed by signal 9 (SIGKILL); it is started again in {pause} s"
        ]
        now += pause
        assert here.mend(now) == ["the coordinator is started again"]
    here.end(0, 1)
    with pytest.raises(PeerLostError, match="died 6 times in 10 minutes and is not started again"):
        here.mend(now)
