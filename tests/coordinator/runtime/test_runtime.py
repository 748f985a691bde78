"""The runtime: plans in, jobs out; any thread, one store; lists of jobs in pages."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.metadata.memory import MemoryStore
from fabric.coordinator.metadata.rocksdb import RocksStore
from fabric.coordinator.metadata.store import Write
from fabric.coordinator.runtime.runtime import CoordinatorRuntime, page
from fabric.errors import (
    ConfigError,
    DataError,
    FabricError,
    InternalError,
    NotFoundError,
    PeerLostError,
    PlanError,
    StorageError,
)
from fabric.plan.codec import decode, encode
from fabric.plan.expr import Column
from fabric.plan.nodes import Filter, Limit, Plan, Scan, Select, Sink
from fabric.plan.sources import DatasetSource, FileSource, MemorySource
from fabric.plan.targets import DatasetTarget, FileTarget
from tests.support.arrays import examples
from tests.support.wait import wait_until

DEADLINE_S = 60.0


class Agent:
    """Reports each task it is given, from a thread of its own."""

    def __init__(self, runtime: CoordinatorRuntime, agent_id: str = "a") -> None:
        self.runtime, self.agent_id = runtime, agent_id
        self.deploys: list[pb.Deploy] = []
        self.heard: list[str] = []
        self.state = pb.TASK_FINISHED
        self.hold = False
        hello = pb.Hello(agent_id=agent_id, address=f"local:{agent_id}", cpus=2, slots=2)
        self.session = runtime.attach(agent_id, hello, self.take)

    def take(self, message: pb.CoordinatorMessage) -> None:
        self.heard.append(str(message.WhichOneof("kind")))
        if message.WhichOneof("kind") == "deploy":
            self.deploys.append(message.deploy)
            if not self.hold:
                threading.Thread(target=self.report, args=(message.deploy,)).start()

    def report(self, deploy: pb.Deploy) -> None:
        for task in deploy.tasks:
            key = pb.TaskKey(
                job_id=deploy.job_id, stage=deploy.stage, task=task.task, epoch=deploy.epoch
            )
            error = pb.ErrorDetail(kind="DataError", message="torn")
            report = pb.TaskReport(key=key, state=self.state)
            if self.state == pb.TASK_FAILED:
                report.error.CopyFrom(error)
            report.outputs.extend(pb.EdgeTotals(edge=e.edge, rows=2) for e in deploy.outputs)
            self.runtime.receive(self.agent_id, pb.AgentMessage(task=report), self.session)


@pytest.fixture
def scan(tmp_path: Path) -> Scan:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": list(range(80)), "b": [1.5] * 80}), path, row_group_size=10)
    return Scan(FileSource("parquet", (str(path),)), pq.read_schema(path), path="t")


@pytest.fixture
def runtime() -> Iterator[CoordinatorRuntime]:
    with CoordinatorRuntime(embedded=True) as made:
        yield made


def ask(root: Any, **fields: Any) -> pb.SubmitRequest:
    return pb.SubmitRequest(plan=encode(Plan(root)), **fields)


def end(runtime: CoordinatorRuntime, job_id: str) -> pb.JobStatus:
    *_, last = runtime.watch(pb.JobRequest(job_id=job_id))
    return last


def test_submit_watch_locate_release(runtime: CoordinatorRuntime, scan: Scan) -> None:
    agent = Agent(runtime)
    status = runtime.submit(ask(Limit(scan, 5), name="five"))
    assert (status.name, status.result_path) == ("five", "limit_1")
    assert pa.ipc.read_schema(pa.py_buffer(status.result_schema)).names == ["a", "b"]
    last = end(runtime, status.job_id)
    assert (last.state, last.result_rows) == (pb.JOB_FINISHED, 2)
    (deploy,) = agent.deploys
    assert isinstance(decode(deploy.fragment).root, Limit)
    assert deploy.target_partitions == 2
    found = runtime.locate(pb.LocateRequest(job_id=status.job_id))
    assert [(e.node_path, e.is_result, e.complete) for e in found.edges] == [
        ("limit_1", True, True)
    ]
    assert dict(found.addresses) == {"a": "local:a"}
    assert runtime.release(pb.JobRequest(job_id=status.job_id)).state == pb.JOB_RELEASED
    runtime.flush()
    assert agent.heard[-2:] == ["release", "locations"]
    assert [job.state for job in runtime.list_jobs(pb.ListRequest()).jobs] == [pb.JOB_RELEASED]


def test_embedded_parallelism_is_one_unless_asked(runtime: CoordinatorRuntime, scan: Scan) -> None:
    agents = [Agent(runtime, "a"), Agent(runtime, "b")]
    assert runtime.submit(ask(scan)).stages[0].n_tasks == 1
    status = runtime.submit(ask(scan, parallelism=3))
    assert status.stages[0].n_tasks == 3
    end(runtime, status.job_id)
    assert sorted(len(d.tasks) for a in agents for d in a.deploys if d.n_tasks == 3) == [1, 2]


def test_a_fabric_uses_every_agent(scan: Scan) -> None:
    with CoordinatorRuntime() as runtime:
        for name in ("a", "b"):
            Agent(runtime, name)
        assert runtime.submit(ask(scan)).stages[0].n_tasks == 2


def test_a_failed_task_ends_the_watch(runtime: CoordinatorRuntime, scan: Scan) -> None:
    Agent(runtime).state = pb.TASK_FAILED
    status = end(runtime, runtime.submit(ask(scan)).job_id)
    assert status.state == pb.JOB_FAILED
    assert (status.error.kind, status.error.node, status.error.agent) == ("DataError", "t", "a")


def test_cancel(runtime: CoordinatorRuntime, scan: Scan) -> None:
    agent = Agent(runtime)
    agent.hold = True
    job = pb.JobRequest(job_id=runtime.submit(ask(scan)).job_id)
    assert runtime.cancel(job).state == pb.JOB_RUNNING
    runtime.flush()
    assert "cancel" in agent.heard
    agent.state = pb.TASK_CANCELLED
    agent.report(agent.deploys[0])
    assert end(runtime, job.job_id).state == pb.JOB_CANCELLED
    assert runtime.cancel(job).state == pb.JOB_CANCELLED


def test_a_client_key_submits_once_whatever_the_threads_do(
    runtime: CoordinatorRuntime, scan: Scan
) -> None:
    Agent(runtime).hold = True
    found: list[str] = []

    def submit() -> None:
        found.append(runtime.submit(ask(scan, client_key="once")).job_id)

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(runtime.list_jobs(pb.ListRequest()).jobs) == 1


def test_explain(runtime: CoordinatorRuntime, scan: Scan) -> None:
    reply = runtime.explain(ask(Select(scan, (Column("a"),)), parallelism=4))
    assert "select_1" in reply.plan
    assert "t:" in reply.optimised
    assert reply.stages.startswith("stage 0")
    assert "4 tasks" in reply.stages
    assert reply.svg.startswith("<svg")
    assert not runtime.list_jobs(pb.ListRequest()).jobs


def test_nobody_to_run_it(runtime: CoordinatorRuntime, scan: Scan) -> None:
    with pytest.raises(PeerLostError, match="no agent is attached"):
        runtime.submit(ask(scan))
    assert not runtime.list_jobs(pb.ListRequest()).jobs


def test_bad_plans_are_refused_before_start(
    runtime: CoordinatorRuntime, scan: Scan, tmp_path: Path
) -> None:
    Agent(runtime)
    missing = Scan(FileSource("parquet", (str(tmp_path / "no.parquet"),)), scan.schema, path="m")
    existing = tmp_path / "there.csv"
    existing.write_text("")
    cases: Sequence[tuple[Any, type[FabricError], str]] = (
        (Select(scan, (Column("q"),)), PlanError, 'no column "q"'),
        (Filter(scan, Column("b")), PlanError, "must be true or false"),
        (missing, NotFoundError, "no.parquet.*node m"),
        (Sink(scan, FileTarget("csv", str(existing), True)), FabricError, "there.csv"),
        (Scan(DatasetSource("d"), scan.schema, path="d"), NotFoundError, "no dataset 'd'.*node d"),
    )
    for root, kind, message in cases:
        with pytest.raises(kind, match=message):
            runtime.submit(ask(root))
    for data in (b"junk", b"", bytes(100)):
        with pytest.raises(PlanError):
            runtime.submit(pb.SubmitRequest(plan=data))
    with pytest.raises(ConfigError, match="1 to 128, got 129"):
        runtime.submit(ask(scan, parallelism=129))
    with pytest.raises(PlanError, match="at most 16777216 are allowed"):
        runtime.submit(pb.SubmitRequest(plan=bytes((16 << 20) + 1)))
    assert not runtime.list_jobs(pb.ListRequest()).jobs


def test_tables_of_another_process_are_refused() -> None:
    with CoordinatorRuntime() as runtime:
        Agent(runtime)
        root = Scan(MemorySource("t", 1), pa.schema([("a", pa.int64())]), path="mem")
        with pytest.raises(PlanError, match=r"only be read by an embedded fabric.*node mem"):
            runtime.submit(ask(root))


def test_datasets(runtime: CoordinatorRuntime, scan: Scan) -> None:
    agent = Agent(runtime)
    schema = scan.schema.serialize().to_pybytes()
    begin = pb.DatasetBegin(name="d", schema=schema, mode="create", n_partitions=2)
    begun = runtime.dataset(pb.DatasetRequest(begin=begin))
    parts = [pb.CommittedPart(writer="w", rows=9)]
    commit = pb.DatasetCommit(transaction=begun.transaction, parts=parts)
    assert runtime.dataset(pb.DatasetRequest(commit=commit)).location.version == 1
    source = Scan(DatasetSource("d"), scan.schema, path="d")
    status = end(runtime, runtime.submit(ask(source, parallelism=2)).job_id)
    assert status.state == pb.JOB_FINISHED
    splits = [s for t in agent.deploys[0].tasks for scan in t.scans for s in scan.splits]
    assert [split.uri for split in splits] == ["a", "a"]
    with pytest.raises(DataError, match="the plan expects a: int8"):
        runtime.submit(ask(Scan(DatasetSource("d"), pa.schema([("a", pa.int8())]), path="d")))
    with pytest.raises(NotFoundError, match="no dataset 'd' of version 7"):
        runtime.submit(ask(Scan(DatasetSource("d", 7), scan.schema, path="d")))
    with pytest.raises(ConfigError, match="exists already"):
        runtime.submit(ask(Sink(scan, DatasetTarget("d"))))
    runtime.detach("a", "gone")
    Agent(runtime, "b")
    with pytest.raises(NotFoundError, match="lies with agent a, which is not attached"):
        runtime.submit(ask(source))
    listed = runtime.dataset(pb.DatasetRequest(list=pb.DatasetList()))
    assert [location.name for location in listed.datasets] == ["d"]
    runtime.dataset(pb.DatasetRequest(drop=pb.DatasetDrop(name="d")))
    with pytest.raises(NotFoundError, match="begin, commit, abort, drop, list or view"):
        runtime.dataset(pb.DatasetRequest())


def test_unknown_jobs(runtime: CoordinatorRuntime) -> None:
    request = pb.JobRequest(job_id="job-9")
    for call in (runtime.watch, runtime.cancel, runtime.release, runtime.status):
        with pytest.raises(NotFoundError, match="no job 'job-9'"):
            call(request)
    with pytest.raises(NotFoundError):
        runtime.locate(pb.LocateRequest(job_id="job-9"))


def test_watchers_are_told_that_the_coordinator_is_gone(scan: Scan) -> None:
    runtime = CoordinatorRuntime(embedded=True)
    runtime.start()
    Agent(runtime).hold = True
    watch = runtime.watch(pb.JobRequest(job_id=runtime.submit(ask(scan)).job_id))
    next(watch)
    runtime.close()
    runtime.close()
    with pytest.raises(PeerLostError, match="was stopped"):
        list(watch)
    with pytest.raises(PeerLostError, match="was stopped"):
        runtime.submit(ask(scan))


def test_a_link_that_raises_is_given_up(runtime: CoordinatorRuntime, scan: Scan) -> None:
    def broken(message: pb.CoordinatorMessage) -> None:
        raise OSError("no route")

    runtime.attach("bad", pb.Hello(agent_id="bad"), broken)
    runtime.flush()
    assert [a.state for a in runtime.list_agents(pb.ListRequest()).agents] == ["starting"]
    Agent(runtime)
    assert end(runtime, runtime.submit(ask(scan)).job_id).state == pb.JOB_FINISHED


def test_silent_agents_are_disconnected(scan: Scan) -> None:
    clock = SimpleNamespace(now=100.0)
    clock.monotonic_s = lambda: clock.now
    clock.wall_s = lambda: 0.0
    runtime = CoordinatorRuntime(clock=clock)  # not started: time is ours
    reasons: list[str] = []
    runtime.attach("a", pb.Hello(agent_id="a"), lambda _: None, reasons.append)
    for _ in range(32):
        clock.now += 0.5
        runtime.tick()
    assert not runtime.list_agents(pb.ListRequest()).agents
    assert [a.state for a in runtime.list_agents(pb.ListRequest(lost=True)).agents] == ["failed"]
    runtime.start()
    runtime.flush()
    assert reasons == ["it sent no heartbeat for 15.5 s"]
    runtime.close()


class FullDisk(MemoryStore):
    """Refuses writes once `full`."""

    full = False

    def apply(self, writes: Sequence[Write]) -> None:
        if self.full:
            raise StorageError("no space left on device")
        super().apply(writes)


def test_a_store_that_refuses_ends_the_coordinator(scan: Scan) -> None:
    store = FullDisk()
    with CoordinatorRuntime(store, embedded=True) as runtime:
        Agent(runtime)
        store.full = True
        for _ in range(2):
            with pytest.raises(StorageError, match="no space left"):
                runtime.submit(ask(scan))
        assert runtime.broken is not None


def test_a_thread_that_fails_ends_the_coordinator_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: dict[str, Mapping[str, str | int]] = {}

    def fails() -> None:
        raise KeyError("a mistake")

    with CoordinatorRuntime(log=logged.__setitem__) as runtime:
        monkeypatch.setattr(runtime, "tick", fails)
        wait_until(lambda: runtime.broken)
        with pytest.raises(InternalError, match=r"^the coordinator failed \(KeyError\); its log"):
            runtime.list_jobs(pb.ListRequest())
    assert "a mistake" in str(logged["coordinator failed"]["error"])
    assert "in fails" in str(logged["coordinator failed"]["trace"])


def test_restart_over_rocksdb(tmp_path: Path, scan: Scan) -> None:
    folder = tmp_path / "meta"
    with CoordinatorRuntime(RocksStore(folder)) as runtime:
        Agent(runtime).hold = True
        job_id = runtime.submit(ask(scan, name="mine")).job_id
        schema = scan.schema.serialize().to_pybytes()
        begin = pb.DatasetBegin(name="d", schema=schema, mode="create")
        begun = runtime.dataset(pb.DatasetRequest(begin=begin)).transaction
        assert runtime.epoch == 1
    with CoordinatorRuntime(RocksStore(folder), config=CoordinatorConfig()) as runtime:
        assert runtime.epoch == 2
        status = runtime.status(pb.JobRequest(job_id=job_id))
        assert (status.name, status.state) == ("mine", pb.JOB_RUNNING)
        commit = pb.DatasetRequest(commit=pb.DatasetCommit(transaction=begun))
        assert runtime.dataset(commit).location.version == 1


STATES = [pb.JOB_RUNNING, pb.JOB_FINISHED, pb.JOB_FAILED]
JOBS = st.lists(
    st.builds(
        pb.JobStatus,
        job_id=st.text("ab ", min_size=1, max_size=4),
        submitted_s=st.sampled_from([0.0, 1.0, 1.1, 1e9 + 0.1]),
        state=st.sampled_from(STATES),
    ),
    max_size=20,
    unique_by=lambda job: job.job_id,
)


@given(JOBS, st.integers(1, 7), st.lists(st.sampled_from(STATES), unique=True))
@examples()
def test_pages_together_are_everything(
    jobs: list[pb.JobStatus], limit: int, states: list[pb.JobState]
) -> None:
    found: list[str] = []
    before = ""
    while True:
        told = page(jobs, pb.ListRequest(limit=limit, before=before, states=states))
        assert len(told.jobs) <= limit
        found[:0] = [job.job_id for job in told.jobs]
        if not (before := told.next):
            break
    wanted = [job for job in jobs if not states or job.state in states]
    wanted.sort(key=lambda job: (job.submitted_s, job.job_id))
    assert found == [job.job_id for job in wanted]
    assert len(page(jobs, pb.ListRequest()).jobs) == len(jobs)


def test_a_place_of_nowhere() -> None:
    with pytest.raises(ConfigError, match="`before` must be"):
        page([], pb.ListRequest(before="<script>"))
