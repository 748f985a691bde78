"""Which task goes to which agent now.

One job: `assign`: slots to the jobs in turn, the job with the fewest tasks at work first. A task
goes to the agent it prefers (where its neighbours run) if that has a free slot, else to another one
by the policy. The tasks of a pipelined region are placed together or not at all: nobody behind it
is given a slot then, so that it can't starve.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fabric.coordinator.core.agents.agents import Agent
from fabric.coordinator.core.jobs.jobs import Job
from fabric.coordinator.planner.placement import Policy
from fabric.coordinator.planner.stages import Key, StageGraph
from fabric.errors import PlanError


@dataclass(frozen=True, slots=True)
class Assigned:
    """Tasks of one region of a job, and the agent of each."""

    job: Job
    region: int
    tasks: tuple[tuple[Key, str], ...]


def assign(
    jobs: Sequence[Job], room: Mapping[str, int], now: float, policy: Policy
) -> Iterator[Assigned]:
    """Place what may start into free slots, by agent in `room`; nothing is changed here."""
    free = {agent_id: n for agent_id, n in room.items() if n > 0}
    n_free = sum(free.values())
    waiting = [
        (sum(_used_by(job).values()), n, job, _units(job, now)) for n, job in enumerate(jobs)
    ]
    heapq.heapify(waiting)
    while waiting and n_free:
        at_work, number, job, units = waiting[0]
        unit = next(units, None)
        if unit is None:
            heapq.heappop(waiting)
            continue
        region, keys = unit
        shares = _shares(job, region, keys)
        if len(shares) > n_free:
            return
        n_free -= len(shares)
        agents = [_choose(job.tasks[share[0]].agent_id, free, policy) for share in shares]
        placed = [
            (key, agent) for share, agent in zip(shares, agents, strict=True) for key in share
        ]
        yield Assigned(job, region, tuple(placed))
        heapq.heapreplace(waiting, (at_work + len(shares), number, job, units))


def slots_used(jobs: Sequence[Job]) -> dict[str, int]:
    """How many tasks of `jobs` are at work, by agent."""
    used: dict[str, int] = {}
    for job in jobs:
        for agent_id, n in _used_by(job).items():
            used[agent_id] = used.get(agent_id, 0) + n
    return used


def slots_needed(graph: StageGraph) -> int:
    """How many slots a stream takes, all at once; 0: there is none, and one slot will do."""
    if graph.stream_region is None:
        return 0
    return max(stage.n_tasks for stage in graph.regions()[graph.stream_region])


def slots_for(job: Job | None, agents: Iterable[Agent], jobs: Sequence[Job]) -> int:
    """How many slots a job could have: those of agents that stay, that no other of `jobs` takes."""
    others = slots_used([other for other in jobs if other is not job])
    return sum(
        max(0, max(1, agent.hello.slots) - others.get(agent.agent_id, 0))
        for agent in agents
        if agent.is_there
    )


def free_slots(agents: Iterable[Agent], jobs: Sequence[Job]) -> dict[str, int]:
    """What `jobs` leave free, by agent that takes tasks."""
    used = slots_used(jobs)
    return {
        agent.agent_id: max(1, agent.hello.slots) - used.get(agent.agent_id, 0)
        for agent in agents
        if agent.takes_tasks(used.get(agent.agent_id, 0))
    }


def waiting_for(job: Job, n_slots: int, room: Mapping[str, int], n_held: int) -> str:
    """Why a job that might start does not, in words; "": it will, or slots could not mend it.

    Streams need all their slots at once; others wait for good where streams hold all, `n_held`.
    """
    if job.stream is None:
        waits = n_held >= n_slots > 0 and job.tasks.n_waiting and not job.busy()
        held = f"needs a slot, and streams hold all {n_slots}"
        return f"{held}; give a stream fewer tasks, or add slots" if waits else ""
    needed, n_free = slots_needed(job.graph), sum(n for n in room.values() if n > 0)
    ready = any(job.is_stream(region) for region in job.ready())
    if not ready or needed <= n_free:
        return ""
    slots = "1 slot" if needed == 1 else f"{needed} slots at once"
    there = f"needs {slots}, the fabric has {n_slots}"
    return f"{there}, of which {n_free} are free" if needed <= n_slots else there


def check_slots(job: Job, n_slots: int) -> None:
    """Refuse a stream that would wait for ever, where no agent will come."""
    if 0 < n_slots < (needed := slots_needed(job.graph)):
        raise PlanError(
            f"the stream needs {needed} slots at once, and this session has {n_slots}; submit it "
            f"with parallelism={n_slots}, or open the session with "
            f"fabric.connect(parallelism={needed})"
        )


def _used_by(job: Job) -> Mapping[str, int]:
    """Slots by agent; tasks of a stream that have the same number share one."""
    if job.stream is None:
        return job.tasks.at_work
    taken = {
        (task.agent_id, number if job.is_stream(region) else (stage, number))
        for (stage, number), task in job.tasks.items()
        if task.active and (region := job.graph.stages[stage].region) is not None
    }
    return Counter(agent_id for agent_id, _ in taken)


def _shares(job: Job, region: int, keys: Sequence[Key]) -> list[list[Key]]:
    """What takes a slot together: a task; of a stream, the tasks of all stages with one number.

    They run together for ever, and hand each other rows: a slot for each would ask for as many
    slots as there are stages, and lie idle most of the time.
    """
    if not job.is_stream(region):
        return [[key] for key in keys]
    shares: dict[int, list[Key]] = {}
    for key in keys:
        shares.setdefault(key[1], []).append(key)
    return list(shares.values())


def _units(job: Job, now: float) -> Iterator[tuple[int, list[Key]]]:
    """What is placed together: a task, or all tasks of a pipelined region."""
    if job.stopping is not None:
        return
    for region in job.ready():
        due = (key for key in job.may_start(region) if job.tasks[key].not_before <= now)
        if not job.pipelined(region):
            yield from ((region, [key]) for key in due)
        elif len(keys := list(due)) == job.n_waiting(region):
            yield region, keys


def _choose(preferred: str, free: dict[str, int], policy: Policy) -> str:
    """An agent with room; it has one slot less then, and is not in `free` without any."""
    agent = preferred
    if agent not in free:
        agent = (min if policy == "bin_pack" else max)(sorted(free), key=free.__getitem__)
    free[agent] -= 1
    if not free[agent]:
        del free[agent]
    return agent
