"""A job that is put through faults, and what must hold after them.

One job: `Submitted`, a job that outlasts whoever coordinates it, and `Ordeal`: a plan of several
stages over a file, with joins and groups, that writes a folder of Parquet files. `submit` it, break
things, `finish` it, `check` it: its rows are those of a run without faults, nothing that was done
and still there was done again, nothing is left.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

import fabric
from fabric import col
from fabric.clients.demo.checksum import checksum
from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED
from fabric.control.errors import from_detail
from fabric.errors import PeerLostError
from fabric.ids import new_id
from fabric.plan.codec import encode
from fabric.plan.nodes import Node, Plan, Sink
from fabric.plan.targets import DatasetTarget, FileTarget, GateTarget, Target
from tests.support.local import LocalFabric
from tests.support.wait import wait_until

N_ROWS, N_GROUPS, ROW_GROUP = 24_000, 500, 3_000
PARALLELISM = 4
PATIENCE_S = 60.0
Mode = Literal["materialised", "pipelined"]
_PIPELINED = frozenset(("scan_1", "with_columns_1"))
"""Node paths of the stages that a pipelined edge joins."""
T = TypeVar("T")


class Submitted:
    """One job of `plan` on a fabric that may lose any of its processes meanwhile."""

    def __init__(
        self,
        running: LocalFabric,
        plan: Node,
        *,
        parallelism: int,
        checkpoint: pb.Checkpointing | None = None,
    ) -> None:
        self._fabric, self._key, self._parallelism = running, new_id("key"), parallelism
        self._plan, self._checkpoint = encode(Plan(plan)), checkpoint
        self.job_id = ""

    def submit(self) -> str:
        """Hand it in, again and again until a coordinator has answered; always the same job."""
        request = pb.SubmitRequest(
            plan=self._plan, client_key=self._key, parallelism=self._parallelism,
            checkpoint=self._checkpoint,
        )  # fmt: skip
        self.job_id = patiently(lambda: self._fabric.control.submit(request).job_id)
        return self.job_id

    def submit_beside(self) -> threading.Thread:
        """The same in a thread, for a coordinator that dies before it answers."""
        thread = threading.Thread(target=self.submit, name="submit", daemon=True)
        thread.start()
        return thread

    def ended(self) -> bool:
        """Whether it is known to have ended; asks at most once."""
        try:
            return bool(self.job_id) and self._now().state in ENDED
        except PeerLostError:
            return False

    def status(self) -> pb.JobStatus:
        """What a coordinator says of it, as soon as one is there."""
        return patiently(self._now)

    def tasks(self) -> list[pb.TaskStatus]:
        """All attempts."""
        return list(patiently(lambda: self._fabric.control.list_tasks(self._request)).tasks)

    def running(self) -> int:
        """How many tasks of its last stage run."""
        return self.status().stages[-1].running

    def finish(self, within_s: float = PATIENCE_S) -> pb.JobStatus:
        """Wait for the end; its error is raised."""
        wait_until(lambda: self.status().state in ENDED, within_s)
        status = self.status()
        if status.HasField("error"):
            raise from_detail(status.error)
        assert status.state == pb.JOB_FINISHED
        return status

    def release(self) -> None:
        """Drop it; see `wait_idle`."""
        patiently(lambda: self._fabric.control.release(self._request))

    def _now(self) -> pb.JobStatus:
        return next(iter(self._fabric.control.watch(self._request)))

    @property
    def _request(self) -> pb.JobRequest:
        return pb.JobRequest(job_id=self.job_id)


class Ordeal(Submitted):
    """One job on a fabric; its files lie in `folder`."""

    def __init__(
        self,
        running: LocalFabric,
        folder: Path,
        *,
        mode: Mode = "materialised",
        target: Target | None = None,
    ) -> None:
        self._mode = mode
        self._out = folder / f"out-{new_id('key')}"
        self._source = folder / "rows.parquet"
        if not self._source.exists():
            pq.write_table(source_rows(), self._source, row_group_size=ROW_GROUP)
        self._target = target or FileTarget("parquet", str(self._out), single=False)
        plan = Sink(query(str(self._source), mode), self._target)
        super().__init__(running, plan, parallelism=PARALLELISM)

    def check(self, victims: Iterable[str] = (), *, orders_lost: bool = False) -> None:
        """Rows as without faults; only what the loss of agents `victims` cost was done again.

        With `orders_lost` also what an agent had been told, perhaps, when its coordinator died.
        """
        self.check_rows()
        n_more = self._check_attempts(frozenset(victims))
        assert self.status().n_attempts == n_more, self.tasks()
        assert victims or orders_lost or not n_more, f"nobody was lost, {n_more} were done again"

    def check_rows(self) -> None:
        """As without faults, and no file beside them."""
        status = self.status()
        assert status.result_rows == reference().num_rows, status
        if not isinstance(self._target, FileTarget):
            return
        assert checksum(pq.read_table(self._out)) == checksum(reference())
        beside = [path.name for path in self._out.parent.glob(f".{self._out.name}*")]
        assert not beside, f"left beside the result: {beside}"

    def _check_attempts(self, victims: frozenset[str]) -> int:
        """An output that is there is never made again; returns how many attempts there were more.

        Stages joined by a pipelined edge keep nothing of what went over it: they are done again
        together.
        """
        by_task: dict[tuple[int, int], list[pb.TaskStatus]] = defaultdict(list)
        for attempt in self.tasks():
            by_task[attempt.stage, attempt.task].append(attempt)
        needless = []
        for attempts in by_task.values():
            attempts.sort(key=lambda each: each.attempt)
            for earlier in attempts[:-1]:
                if earlier.state == pb.TASK_FINISHED and earlier.agent_id not in victims:
                    needless.append(earlier)
        together = _PIPELINED if self._mode == "pipelined" else frozenset()
        alone = [each for each in needless if each.node_path not in together]
        assert not alone, f"done, there, and done again: {alone}"
        if needless:
            redone = [t for t in self.tasks() if t.node_path in together and t.attempt]
            assert {t.node_path for t in redone} == together, redone
        return sum(len(attempts) - 1 for attempts in by_task.values())


def query(source: str, mode: Mode) -> Node:
    """Rows beside the sums of their groups: exchanges, groups, a join."""
    rows = fabric.read_parquet(source).filter(col("v") != 7)
    sent = rows.exchange("k", n_partitions=PARALLELISM, mode=mode).with_columns(w=col("k") * 2)
    if mode == "pipelined":  # a join needs its whole input first
        sent = sent.exchange("v", n_partitions=PARALLELISM, mode="materialised")
    sums = rows.group_by("v").agg(fabric.sum("k").alias("total"), fabric.count().alias("n"))
    return sent.join(sums, on="v").select("k", "v", "s", "w", "total", "n").plan.root


def source_rows() -> pa.Table:
    """Keys that are all different, values that are not."""
    return pa.table(
        {
            "k": pa.array(range(N_ROWS), pa.int64()),
            "v": pa.array([n * 7919 % N_GROUPS for n in range(N_ROWS)], pa.int64()),
            "s": [f"text {n % 101}" for n in range(N_ROWS)],
        }
    )


@cache
def reference() -> pa.Table:
    """What comes out without any fault, by pyarrow alone."""
    rows = source_rows()
    rows = rows.filter(pa.compute.not_equal(rows["v"], 7))
    sums = rows.group_by("v").aggregate([("k", "sum"), ("k", "count")])
    sums = sums.rename_columns(["v", "total", "n"])
    wide = rows.append_column("w", pa.compute.multiply(rows["k"], 2))
    return wide.join(sums, "v").select(["k", "v", "s", "w", "total", "n"])


def patiently(ask: Callable[[], T], within_s: float = PATIENCE_S) -> T:
    """What a coordinator answers, once there is one."""
    end_s = time.monotonic() + within_s
    while True:
        try:
            return ask()
        except (PeerLostError, ValueError):  # gRPC's word for a channel that was closed just now
            if time.monotonic() > end_s:
                raise
            time.sleep(0.05)


def wait_idle(running: LocalFabric) -> None:
    """Until no agent runs or holds anything: every job was released, and nothing was left."""
    wait_until(lambda: all(_idle(agent) for agent in running.attached()), PATIENCE_S)


def dataset(name: str) -> DatasetTarget:
    """A dataset of the fabric, in as many parts as tasks."""
    return DatasetTarget(name, ("k",), PARALLELISM)


def gate(name: str) -> GateTarget:
    """A sink that waits at a gate."""
    return GateTarget(name)


def _idle(agent: pb.AgentStatus) -> bool:
    return not agent.running_tasks and not agent.stored_bytes
