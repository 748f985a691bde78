"""Jobs that somebody restarts, and agents that leave in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import col
from fabric.clients.demo.checksum import checksum
from fabric.clients.session import remote
from fabric.control import control_pb2 as pb
from fabric.errors import FabricError, NotFoundError
from tests.support.local import LocalFabric, local_fabric
from tests.support.wait import wait_until

TABLE = pa.table({"k": [n % 7 for n in range(50_000)], "v": range(50_000)})
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def own() -> Iterator[LocalFabric]:
    with local_fabric(2) as running:
        yield running


@pytest.fixture
def table(tmp_path: Path) -> Path:
    pq.write_table(TABLE, path := tmp_path / "t.parquet", row_group_size=1000)
    return path


def connect(running: LocalFabric) -> fabric.Session:
    return fabric.connect(f"fabric://{running.address}", token=running.token)


def sums(session: fabric.Session, path: Path) -> fabric.DataFrame:
    return (
        session.read_parquet(path)
        .exchange("k").named("deal")
        .group_by("k").agg(s=col("v").sum()).named("sums")
    )  # fmt: skip


EXPECTED = {k: sum(v for v in range(50_000) if v % 7 == k) for k in range(7)}


def answer(job: fabric.Job) -> dict[int, int]:
    rows = job.collect().to_pylist()
    return {row["k"]: row["s"] for row in rows}


def attempts(running: LocalFabric, job: fabric.Job) -> dict[str, int]:
    """The newest attempt of the tasks of each stage, by the stage's path."""
    tasks = running.control.list_tasks(pb.JobRequest(job_id=job.id)).tasks
    return {
        task.node_path: max(t.attempt for t in tasks if t.node_path == task.node_path)
        for task in tasks
    }


def test_a_job_restarted_from_a_node_uses_what_was_made_before_it(
    own: LocalFabric, table: Path
) -> None:
    with connect(own) as session:
        job = session.submit(sums(session, table)).wait()
        assert answer(job) == EXPECTED
        before = attempts(own, job)
        assert set(before.values()) == {0}
        job.restart("sums").wait()
        after = attempts(own, job)
        assert after.pop(job.status.stages[-1].node_path) == 1
        assert 0 in after.values()  # the scan's rows were still there
        assert answer(job) == EXPECTED
        with pytest.raises(NotFoundError, match="did you mean 'sums'"):
            job.restart("sum")


def test_a_lost_result_is_made_again_by_a_restart(
    own: LocalFabric, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(own) as session:
        job = session.submit(sums(session, table)).wait()
        own.kill(1)
        wait_until(lambda: len(session.agents()) == 1)
        with monkeypatch.context() as patch:
            patch.setattr(remote, "_SEALED_S", 1.0)  # nobody comes back
            with pytest.raises(FabricError):
                job.collect()
        job.restart().wait()
        assert answer(job) == EXPECTED


def test_a_running_or_released_job_is_not_restarted(own: LocalFabric, table: Path) -> None:
    with connect(own) as session:
        job = session.submit(sums(session, table)).wait()
        job.release()
        with pytest.raises(NotFoundError, match="was released"):
            job.restart()
        failing = session.read_parquet(table).select(x=col("k") // (col("k") - col("k")))
        bad = session.submit(failing)
        with pytest.raises(FabricError):
            bad.wait()
        with pytest.raises(FabricError):  # the same mistake is made again, and told again
            bad.restart().wait()
        assert bad.status.run == 1


def test_an_agent_that_drains_hands_on_what_it_holds(own: LocalFabric, table: Path) -> None:
    with connect(own) as session:
        job = session.submit(session.read_parquet(table).exchange("k")).wait()
        leaving = own.agent_id(1)
        own.control.drain(pb.AgentRequest(agent_id=leaving))
        wait_until(lambda: state(own, leaving) == "drained")
        assert own.terminate(1) == 0
        assert checksum(job.collect()) == checksum(TABLE)
        assert job.status.n_attempts == 0
        assert session.read_parquet(table).count() == 50_000


def test_draining_can_be_undone(own: LocalFabric, table: Path) -> None:
    with connect(own) as session:
        for i in range(2):
            own.control.drain(pb.AgentRequest(agent_id=own.agent_id(i)))
        job = session.submit(sums(session, table))
        assert job.status.state == pb.JOB_QUEUED  # nobody takes tasks
        own.control.undrain(pb.AgentRequest(agent_id=own.agent_id(0)))
        assert answer(job.wait()) == EXPECTED
        with pytest.raises(NotFoundError, match="there is no agent 'nobody'"):
            own.control.drain(pb.AgentRequest(agent_id="nobody"))


def state(running: LocalFabric, agent_id: str) -> str:
    return next(a.state for a in running.attached() if a.agent_id == agent_id)
