"""A stream on real processes, something broken again and again, and what came of it.

One job: `Trial`. Each `every_s` one of the faults happens, chosen by a seed; after it the job must
be running again, with new checkpoints and later event time, before the next one. Agent 0 is never
killed, nor the coordinator after its first fault, so that their memory can be watched for long.
What surrounds the fabric, as Kafka does, has `faults` of its own: each breaks something and says
what.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fabric.control import control_pb2 as pb
from fabric.control.errors import from_detail
from fabric.errors import PeerLostError
from tests.support.damage import flip
from tests.support.local import LocalFabric
from tests.support.netns_fabric import NetnsFabric
from tests.support.ordeal import patiently
from tests.support.soak.job import SoakJob
from tests.support.soak.watch import Watch, folder_bytes
from tests.support.wait import wait_until

HEALS_S = 60.0
"""After a fault everything must go on within so long."""
PAUSE_S = 3.0
DISK_RATIO_MAX = 3.0
"""What the folder of checkpoints may take beside what is kept: one under way, one being removed."""
COMPLETE = ("complete", "published", "damaged")
"""What a checkpoint is that was complete at some time."""


@dataclass(slots=True)
class Facts:
    """What happened."""

    faults: list[str] = field(default_factory=list)
    healed_s: list[float] = field(default_factory=list)
    checkpoints: int = 0
    """The newest that was complete."""
    aborted: int = 0
    rows: int = 0
    disk_ratio: float = 0.0
    """What the folder of checkpoints took at most, by what the ones that are kept have in them."""


class Trial:
    """`job` on `running`, whose processes `watch` samples."""

    def __init__(
        self,
        running: LocalFabric,
        job: SoakJob,
        watch: Watch,
        seed: int,
        faults: Sequence[Callable[[], str]] = (),
    ) -> None:
        self.facts = Facts()
        self._more = list(faults)
        self._fabric, self._job, self._watch = running, job, watch
        self._rng = random.Random(seed)
        self._clock = time.monotonic
        self._job_id = ""

    # ---- life

    def start(self) -> None:
        """Submit, and wait for the first rows."""
        self._watch_all()
        self._job_id = self._fabric.submit(self._job.plan(), parallelism=3)
        self._goes_on(HEALS_S)

    def begin_anew(self, restores: int) -> None:
        """Restore all tasks so often, then break everything once.

        Processes are as large as they will be only then: memory is judged from here on.
        """
        for _ in range(restores):
            self._fabric.kill(-1)
            self._start_agent(len(self._fabric.agents) - 1)
            self._goes_on(HEALS_S)
        for fault in (self._kill_coordinator, *self._others()):
            self._break(fault)
        self._watch.judge()

    def run(self, seconds: float, every_s: float) -> None:
        """Break something each `every_s`, for so long; the last time is without a fault."""
        end_s = self._clock() + seconds
        faults = self._chosen(max(0, int(seconds / every_s) - 1))
        while (left_s := end_s - self._clock()) > 0:
            self._rest(min(every_s, left_s))
            if faults and self._clock() < end_s:
                self._break(faults.pop(0))

    def finish(self) -> None:
        """End the job and say how what was put out differs from what should be."""
        patiently(lambda: self._fabric.control.cancel(self._request))
        wait_until(lambda: self._status().state == pb.JOB_CANCELLED, HEALS_S)
        seen = self._job.seen()
        assert seen.num_rows, "nothing was put out"
        assert self.facts.disk_ratio <= DISK_RATIO_MAX, self.facts
        self.facts.rows = sum(seen["n"].to_pylist())
        assert not (unlike := self._job.unlike_model(seen)), unlike
        patiently(lambda: self._fabric.control.release(self._request))
        wait_until(lambda: not folder_bytes(self._checkpoints), HEALS_S)

    # ---- faults

    def _chosen(self, n: int) -> list[Callable[[], str]]:
        """The coordinator first, unless it was killed before: afterwards it lives to the end."""
        others = self._others()
        rounds = [] if self._watch.judged_s else [self._kill_coordinator]
        while len(rounds) < n:
            rounds += self._rng.sample(others, len(others))
        return rounds[:n]

    def _others(self) -> list[Callable[[], str]]:
        """All faults but the coordinator's death."""
        others = [self._kill_agent, self._pause_agent, *self._more]
        if self._job.takes_back:
            others.append(self._damage)
        if isinstance(self._fabric, NetnsFabric):
            others.append(self._cut)
        return others

    def _break(self, fault: Callable[[], str]) -> None:
        began_s = self._clock()
        self.facts.faults.append(fault())
        print(f"{time.strftime('%H:%M:%S')} {self.facts.faults[-1]}", flush=True)
        self._goes_on(HEALS_S)
        self.facts.healed_s.append(round(self._clock() - began_s, 1))

    def _kill_agent(self) -> str:
        i = self._rng.randrange(1, len(self._fabric.agents))
        self._fabric.kill(i)
        self._start_agent(i)
        return f"kill agent {i}"

    def _pause_agent(self) -> str:
        i = self._rng.randrange(len(self._fabric.agents))
        self._fabric.agents[i].process.send_signal(signal.SIGSTOP)
        time.sleep(PAUSE_S)
        self._fabric.resume(i)
        return f"stop agent {i} for {PAUSE_S:g} s"

    def _kill_coordinator(self) -> str:
        self._fabric.kill_coordinator()
        self._fabric.start_coordinator()
        self._watch_coordinator()
        return "kill the coordinator"

    def _damage(self) -> str:
        """The newest checkpoint has a file with another byte in it, and is needed (F9)."""
        assert self._fabric.coordinator is not None
        i = self._rng.randrange(1, len(self._fabric.agents))
        coordinator = self._fabric.coordinator.process
        coordinator.send_signal(signal.SIGSTOP)  # so that no newer checkpoint is completed
        try:
            manifest = max(self._checkpoints.glob("*/*/MANIFEST"))
            files = [p for p in manifest.parent.rglob("*") if p.is_file() and p.stat().st_size]
            path = self._rng.choice(sorted(p for p in files if p.stat().st_nlink == 1))
            flip(path, self._rng.randrange(path.stat().st_size))
            self._fabric.kill(i)
        finally:
            coordinator.send_signal(signal.SIGCONT)
        self._start_agent(i)
        name = path.relative_to(manifest.parent)
        return f"damage {name} of checkpoint {int(manifest.parent.name)}, kill agent {i}"

    def _cut(self) -> str:
        assert isinstance(self._fabric, NetnsFabric)
        i = self._rng.randrange(1, len(self._fabric.agents))
        ends = ("coordinator", f"agent {(i + 1) % len(self._fabric.agents)}")
        other = self._rng.choice(ends)
        self._fabric.network.partition(f"agent {i}", other)
        time.sleep(PAUSE_S)
        self._fabric.network.heal()
        return f"cut agent {i} from {other} for {PAUSE_S:g} s"

    def _start_agent(self, i: int) -> None:
        self._fabric.agents[i] = started = self._fabric.start_agent(i)
        self._watch.add(started.name, started.process.pid)

    # ---- what goes on

    def _goes_on(self, within_s: float) -> None:
        """The job runs, two more checkpoints complete, more is seen (I7)."""
        before, first = self._newest(), self._job.n_seen()
        wait_until(
            lambda: self._state() == pb.JOB_RUNNING and self._newest() >= before + 2, within_s
        )
        wait_until(lambda: self._job.n_seen() > first, within_s)

    def _rest(self, seconds: float) -> None:
        """Nothing is broken, and there must be progress (I8)."""
        end_s, newest = self._clock() + seconds, self._newest()
        while self._clock() < end_s:
            time.sleep(min(1.0, max(0.0, end_s - self._clock())))
            self._measure()
        assert self._newest() > newest, "no checkpoint was completed"

    def _measure(self) -> None:
        told = self._told()
        numbers = [one.checkpoint for one in told if one.state in COMPLETE]
        assert max(numbers, default=0) >= self.facts.checkpoints, "the newest checkpoint is older"
        self.facts.checkpoints = max([self.facts.checkpoints, *numbers])
        self.facts.aborted = sum(one.state == "aborted" for one in told)
        kept = sum(one.bytes for one in told if one.state in COMPLETE)
        if kept:
            ratio = folder_bytes(self._checkpoints) / kept
            self.facts.disk_ratio = max(self.facts.disk_ratio, round(ratio, 2))

    def _newest(self) -> int:
        return max((one.checkpoint for one in self._told() if one.state in COMPLETE), default=0)

    def _told(self) -> list[pb.CheckpointStatus]:
        asked = pb.CheckpointsRequest(job_id=self._job_id)
        return list(patiently(lambda: self._fabric.control.list_checkpoints(asked)).checkpoints)

    def _status(self) -> pb.JobStatus:
        return patiently(lambda: next(iter(self._fabric.control.watch(self._request))))

    def _state(self) -> pb.JobState:
        try:
            status = self._status()
            if status.HasField("error"):
                raise from_detail(status.error)
            return status.state
        except PeerLostError:
            return pb.JOB_UNKNOWN

    @property
    def _request(self) -> pb.JobRequest:
        return pb.JobRequest(job_id=self._job_id)

    @property
    def _checkpoints(self) -> Path:
        return self._fabric.home / "checkpoints"

    def _watch_all(self) -> None:
        self._watch_coordinator()
        for agent in self._fabric.agents:
            self._watch.add(agent.name, agent.process.pid)

    def _watch_coordinator(self) -> None:
        assert self._fabric.coordinator is not None
        self._watch.add("coordinator", self._fabric.coordinator.process.pid)
