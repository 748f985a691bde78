"""How long a job stands still when a process of its fabric is lost.

Three agents of four slots run a job of several stages whose last one waits at a gate. "agent
killed" (SIGKILL), "agent silent" (SIGSTOP) and "coordinator killed" (SIGKILL, started anew at once,
as a supervisor would) break it there. `p95_s` is from that moment until the job is whole again: all
tasks of its last stage run, everything they read made again where it was lost; for the coordinator,
until the new one knows every agent and the running job. `detected_p95_s` is until the coordinator
calls the agent failed. The gate opens then and the job must end with the right number of rows and
no attempt too many; the rows of a second job, which writes files, are compared with pyarrow's.
Leases are 1 s / 5 s. `seconds` is a whole turn: job, loss, recovery, end, the lost one begun anew.

"restore of 1000 MB" is what a task takes from its start to its first row (`restoring.py`): ours
from the files that its agent has kept, the others from the object store, near and far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.harness import Answer, Benchmark, Case, Engine
from bench.restoring import KEY_BYTES, RestoreRun
from fabric.clients.demo.checksum import checksum
from fabric.testing import Gate
from tests.support.local import LocalFabric, local_fabric
from tests.support.ordeal import N_ROWS, Ordeal, gate, patiently, reference
from tests.support.wait import wait_until

N_AGENTS, SLOTS = 3, 4
PATIENCE_S = 60.0
STATE_BYTES, QUICK_STATE_BYTES = 1_000_000_000, 100_000_000


class RecoveryRun:
    """A fabric that is broken and mended, again and again; `lose` gives the victim's id, if any."""

    def __init__(self, case: Case) -> None:
        self._lose = LOSSES[case.name]
        self._stack = ExitStack()
        self._folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="fabric-bench-")))
        self._fabric = self._stack.enter_context(local_fabric(N_AGENTS, slots=SLOTS))
        self._detected_s, self._recovered_s = list[float](), list[float]()

    def work(self) -> None:
        """One loss."""
        with Gate() as closed:
            job = Ordeal(self._fabric, self._folder, target=gate(closed.name))
            job.submit()
            wait_until(lambda: waits(job), PATIENCE_S)
            begun = time.perf_counter()
            victim = self._lose(self._fabric)
            if victim:
                wait_until(lambda: victim not in alive(self._fabric), PATIENCE_S)
                self._detected_s.append(time.perf_counter() - begun)
            else:
                wait_until(lambda: len(alive(self._fabric)) == N_AGENTS, PATIENCE_S)
            wait_until(lambda: waits(job), PATIENCE_S)
            self._recovered_s.append(time.perf_counter() - begun)
        job.finish()
        job.check({victim} if victim else (), orders_lost=not victim)
        job.release()
        self._mend()

    def answer(self) -> Answer:
        """Percentiles of all turns, and what another job on the mended fabric writes."""
        job = Ordeal(self._fabric, self._folder)
        job.submit()
        job.finish()
        job.check()
        extra = {"p95_s": _p95(self._recovered_s), "losses": len(self._recovered_s)}
        if self._detected_s:
            extra["detected_p95_s"] = _p95(self._detected_s)
        n_rows, digest = checksum(reference())
        return Answer(n_rows, digest, extra)

    def close(self) -> None:
        """Stop it."""
        self._stack.close()

    def _mend(self) -> None:
        if self._fabric.agents[0].process.poll() is None:
            self._fabric.resume(0)
            self._fabric.wait_attached()
        else:
            self._fabric.restart(0)


def waits(job: Ordeal) -> bool:
    """Whether all tasks of the last stage are at the gate, on agents that are there."""
    last = job.status().stages[-1]
    return last.running == last.n_tasks


def alive(fabric: LocalFabric) -> set[str]:
    """Agents that the coordinator takes for attached."""
    return {agent.agent_id for agent in patiently(fabric.attached) if agent.state != "failed"}


def kill_agent(fabric: LocalFabric) -> str:
    """At once; the system closes its connections."""
    victim = fabric.agent_id(0)
    fabric.kill(0)
    return victim


def silence_agent(fabric: LocalFabric) -> str:
    """It says nothing any more; its connections stay."""
    fabric.pause(0)
    return fabric.agent_id(0)


def kill_coordinator(fabric: LocalFabric) -> str:
    """And start another one over its store."""
    fabric.kill_coordinator()
    fabric.start_coordinator()
    return ""


LOSSES: dict[str, Callable[[LocalFabric], str]] = {
    "agent killed": kill_agent,
    "agent silent": silence_agent,
    "coordinator killed": kill_coordinator,
}


def _p95(seconds: Sequence[float]) -> float:
    return round(float(np.percentile(np.array(seconds), 95)), 3)


def recovery(case: Case) -> RecoveryRun:
    """Ours."""
    return RecoveryRun(case)


def restored_here(case: Case) -> RestoreRun:
    """From the files that the agent has kept."""
    return RestoreRun(case, copies=True, slow=False)


def restored_from_store(case: Case) -> RestoreRun:
    """From the store on this host."""
    return RestoreRun(case, copies=False, slow=False)


def restored_from_afar(case: Case) -> RestoreRun:
    """From the store behind a link of 20 ms and 100 MB/s."""
    return RestoreRun(case, copies=False, slow=True)


def cases(quick: bool) -> Sequence[Case]:
    """Every loss, and the restore of a state; how often, the rounds say."""
    size = QUICK_STATE_BYTES if quick else STATE_BYTES
    restore = Case(f"restore of {size // 10**6} MB", size // KEY_BYTES, size)
    return [*(Case(name, N_ROWS, 0) for name in LOSSES), restore]


def engines(case: Case) -> Sequence[Engine]:
    """Of losses ours: what others call restarts is another thing."""
    if case.name in LOSSES:
        return [Engine(None, "bench.recovery:recovery")]
    return [
        Engine(None, "bench.recovery:restored_here"),
        Engine("store, 20 ms, 100 MB/s", "bench.recovery:restored_from_afar"),
        Engine("store", "bench.recovery:restored_from_store"),
    ]


BENCHMARK = Benchmark(
    name="recovery",
    about="how long a job stands still when an agent or the coordinator is lost",
    cases=cases,
    engines=engines,
    rounds=20,
    quick_rounds=5,
)
