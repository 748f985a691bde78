"""How long the control plane takes: what a client and what tasks wait for, beside their work.

`submit`: a plan of four nodes from `GrpcControl.submit` to its answer, planned and written down;
`optimise`: a plan of 20 nodes through every rule; `schedule`: from the report that makes 64 tasks
ready to the moment the last of their four agents has its order, everything written down before.
The coordinator keeps its metadata in RocksDB, or in PostgreSQL where the case says so. `p99_ms` is
of all those times; `seconds` of `schedule` is a whole job, whose agents say at once that they are
done. `idle`: a coordinator and three agents, as processes, use `cpu_percent` of a core while there
is nothing to do; `seconds` there is a small job.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness import Answer, Benchmark, Case, Engine
from fabric.clock import SystemClock
from fabric.control import control_pb2 as pb
from fabric.control.client import GrpcControl
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.metadata.rocksdb import RocksStore
from fabric.coordinator.metadata.store import MetadataStore
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.front import Front, Parts
from fabric.coordinator.service.server import ControlServer
from fabric.security.tokens import Signer

N_TASKS, N_AGENTS = 64, 4
ANSWER_S = 30.0
IDLE_S, SETTLE_S = 30.0, 5.0
Ordered = tuple[str, int, pb.Deploy]


class Coordinator:
    """A runtime over a store of its own, and agents that report what they are told to."""

    def __init__(self, stack: ExitStack, kind: str) -> None:
        self.home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fabric-bench-")))
        config = CoordinatorConfig(home=self.home, port=0, heartbeat_s=300.0, timeout_s=3600.0)
        self.config = config
        store = STORES[kind](stack, self.home)
        self.runtime = stack.enter_context(CoordinatorRuntime(store, config=config))
        self.orders: SimpleQueue[Ordered] = SimpleQueue()
        self._sessions: dict[str, int] = {}
        for n in range(N_AGENTS):
            self._attach(f"agent-{n}")

    def _attach(self, agent_id: str) -> None:
        hello = pb.Hello(
            agent_id=agent_id, address=f"local:{agent_id}", slots=N_TASKS // N_AGENTS, cpus=2
        )

        def take(message: pb.CoordinatorMessage) -> None:
            if message.WhichOneof("kind") == "deploy":
                self.orders.put((agent_id, self._sessions[agent_id], message.deploy))

        self._sessions[agent_id] = self.runtime.attach(agent_id, hello, take)

    def finish(self, order: Ordered) -> int:
        """All tasks of an order are done; returns how many those are."""
        agent_id, session, deploy = order
        for task in deploy.tasks:
            key = pb.TaskKey(
                job_id=deploy.job_id, stage=deploy.stage, task=task.task,
                attempt=task.attempt, epoch=deploy.epoch,
            )  # fmt: skip
            report = pb.TaskReport(key=key, state=pb.TASK_FINISHED, rows_out=1)
            report.outputs.extend(pb.EdgeTotals(edge=e.edge, rows=1) for e in deploy.outputs)
            self.runtime.receive(agent_id, pb.AgentMessage(task=report), session)
        return len(deploy.tasks)

    def submitted(self, submit: Callable[[pb.SubmitRequest], pb.JobStatus]) -> str:
        """Hand the plan in; the job's id."""
        return submit(pb.SubmitRequest(plan=self.plan, client_key=f"k{next(_numbers)}")).job_id

    def end(self, job_id: str) -> None:
        """Report tasks as done until the job is, then release it."""
        request = pb.JobRequest(job_id=job_id)
        while self.runtime.status(request).state == pb.JOB_RUNNING:
            self.finish(self.orders.get(timeout=ANSWER_S))
        self.runtime.release(request)

    def make_plan(self, n_partitions: int) -> None:
        """A file, a filter, an exchange, groups: one task, then `n_partitions`."""
        import fabric
        from fabric import col
        from fabric.plan.codec import encode

        path = self.home / "rows.parquet"
        pq.write_table(pa.table({"k": range(1000), "v": range(1000)}), path)
        sent = fabric.read_parquet(str(path)).filter(col("v") > 1)
        sent = sent.exchange("k", n_partitions=n_partitions, mode="materialised")
        self.plan = encode(sent.group_by("k").agg(fabric.sum("v").alias("v")).plan)


_numbers = count()


def rocksdb(stack: ExitStack, home: Path) -> MetadataStore:
    """The embedded store; the runtime closes it."""
    return RocksStore(home / "coordinator")


def postgresql(stack: ExitStack, home: Path) -> MetadataStore:
    """A server of its own with fsync on; the runtime closes the store."""
    from fabric.coordinator.metadata.postgres.database import Database
    from fabric.coordinator.metadata.postgres.store import PostgresStore
    from tests.support.postgres import PostgresServer

    database = Database(stack.enter_context(PostgresServer()).url())
    database.migrate()
    database.open()
    return PostgresStore(database)


STORES: dict[str, Callable[[ExitStack, Path], MetadataStore]] = {
    "rocksdb": rocksdb,
    "postgresql": postgresql,
}


class Timed:
    """What all runs share: the times, their percentile, one answer."""

    def __init__(self) -> None:
        self._stack, self._seconds = ExitStack(), list[float]()

    def answer(self) -> Answer:
        """Percentiles of all but the first, which is a warm-up."""
        p50, p99 = np.percentile(np.array(self._seconds[1:]) * 1e3, [50, 99])
        extra = {"p50_ms": round(float(p50), 3), "p99_ms": round(float(p99), 3)}
        return Answer(0, "none", extra)

    def close(self) -> None:
        """Stop the coordinator."""
        self._stack.close()


class SubmitRun(Timed):
    """Over gRPC; the job is done and released between two of them, untimed by `p99_ms`."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self._coordinator = Coordinator(self._stack, case.parameters["store"])
        self._coordinator.make_plan(4)
        signer, clock = Signer(b"s" * 32), SystemClock()
        parts = Parts(self._coordinator.config, signer, clock, lambda *_: None)
        server = ControlServer(parts, Front(self._coordinator.runtime))
        address = server.start()
        self._stack.callback(server.stop)
        token = signer.token("submit", "bench", 3600.0, clock.wall_s())
        self._control = GrpcControl(address, token)
        self._stack.callback(self._control.close)

    def work(self) -> None:
        """Submit once."""
        begun = time.perf_counter()
        job_id = self._coordinator.submitted(self._control.submit)
        self._seconds.append(time.perf_counter() - begun)
        self._coordinator.end(job_id)


class OptimiseRun(Timed):
    """The plan of `bench/optimize.py`, no store, no network."""

    def __init__(self, case: Case) -> None:
        from bench.optimize import OptimizerRun

        super().__init__()
        self._run = OptimizerRun(Case("20 nodes", 20, 0))

    def work(self) -> None:
        """All rules, once."""
        begun = time.perf_counter()
        self._run.work()
        self._seconds.append(time.perf_counter() - begun)


class ScheduleRun(Timed):
    """One stage's last report, until every task of the next has been handed to its agent."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self._coordinator = Coordinator(self._stack, case.parameters["store"])
        self._coordinator.make_plan(N_TASKS)

    def work(self) -> None:
        """One job."""
        coordinator = self._coordinator
        job_id = coordinator.submitted(coordinator.runtime.submit)
        first, orders = coordinator.orders.get(timeout=ANSWER_S), list[Ordered]()
        assert len(first[2].tasks) == 1
        begun = time.perf_counter()
        coordinator.finish(first)
        while sum(len(deploy.tasks) for _, _, deploy in orders) < N_TASKS:
            orders.append(coordinator.orders.get(timeout=ANSWER_S))
        self._seconds.append(time.perf_counter() - begun)
        for order in orders:
            coordinator.finish(order)
        coordinator.end(job_id)


class IdleRun:
    """A fabric of three agent processes that has run one job and has nothing to do."""

    def __init__(self, case: Case) -> None:
        from tests.support.local import local_fabric

        self._stack = ExitStack()
        self._fabric = self._stack.enter_context(local_fabric(3))

    def work(self) -> None:
        """A job, so that all is loaded."""
        import fabric

        self._fabric.collect(fabric.read_parquet(str(self._source())).exchange("k").plan.root)

    def answer(self) -> Answer:
        """What all four processes together use of one core in `IDLE_S` without any call."""
        time.sleep(SETTLE_S)
        begun, before_s = time.monotonic(), self._cpu_s()
        time.sleep(IDLE_S)
        share = (self._cpu_s() - before_s) / (time.monotonic() - begun)
        return Answer(0, "none", {"cpu_percent": round(100 * share, 2)})

    def close(self) -> None:
        """Stop it."""
        self._stack.close()

    def _source(self) -> Path:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fabric-bench-"))
        pq.write_table(pa.table({"k": range(1000)}), path := Path(folder) / "rows.parquet")
        return path

    def _cpu_s(self) -> float:
        assert self._fabric.coordinator is not None
        ticks = 0
        for child in [self._fabric.coordinator, *self._fabric.agents]:
            stat = Path(f"/proc/{child.process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(stat[11]) + int(stat[12])  # user and system time
        return ticks / os.sysconf("SC_CLK_TCK")


def idle(case: Case) -> IdleRun:
    """Ours."""
    return IdleRun(case)


def submit(case: Case) -> SubmitRun:
    """Ours."""
    return SubmitRun(case)


def optimise(case: Case) -> OptimiseRun:
    """Ours."""
    return OptimiseRun(case)


def schedule(case: Case) -> ScheduleRun:
    """Ours."""
    return ScheduleRun(case)


def cases(quick: bool) -> Sequence[Case]:
    """RocksDB, the default, by the bare name."""
    found = [Case("optimise", 20, 0), Case("idle", 0, 0)]
    for kind in STORES:
        shown = "" if kind == "rocksdb" else f", {kind}"
        found.append(Case(f"submit{shown}", 1, 0, {"store": kind}))
        found.append(Case(f"schedule{shown}", N_TASKS, 0, {"store": kind}))
    return sorted(found, key=lambda case: case.name)


def engines(case: Case) -> Sequence[Engine]:
    """No peer has such a control plane alone."""
    return [Engine(None, f"bench.control:{case.name.partition(',')[0]}")]


BENCHMARK = Benchmark(
    name="control",
    about="what the control plane takes: p99 of submit, optimise, schedule",
    cases=cases,
    engines=engines,
    rounds=30,
    quick_rounds=5,
    round_s=0.25,
)
