"""What has to run again when an attempt failed, or output was lost.

One job: `run_again`. From the tasks it is given it goes both ways: to the producers whose sealed
output is lost and would be read again, and to the readers of rows that are made anew. A reader that
is at work starts again; one that has finished keeps what it has, unless the rows may be others this
time. A pipelined region runs again as a whole, because its rows are nowhere kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fabric.coordinator.core.jobs.jobs import Job
from fabric.coordinator.core.jobs.tasks import Task
from fabric.coordinator.planner.determinate import is_determinate
from fabric.coordinator.planner.stages import Key, producers_of, readers_of


@dataclass(slots=True)
class Again:
    """What was started anew: the attempts that are over, by task."""

    over: dict[Key, Task] = field(default_factory=dict)
    published: str = ""
    """The path of a sink whose output is out, and would have to be written again."""


def lost_with(job: Job, agent_id: str) -> list[Key]:
    """Mark the output of an agent as lost; returns the tasks that have to run again for it."""
    for key, task in job.tasks.items():
        if task.finished and task.agent_id == agent_id:
            job.tasks[key] = task._replace(lost=True)
    active = [k for k, task in job.tasks.items() if task.active and task.agent_id == agent_id]
    return [*active, *needed(job)]


def needed(job: Job) -> list[Key]:
    """Finished tasks whose output is lost, and still to be read."""
    return [key for key, task in job.tasks.items() if task.lost and _is_wanted(job, key)]


def run_again(job: Job, keys: Iterable[Key], not_before: float = 0.0) -> Again:
    """Give each task of `keys`, and all that follows from it, its next attempt."""
    again = Again()
    pending = [(key, False) for key in keys]
    changed: dict[Key, bool] = {}
    while pending:
        key, differs = pending.pop()
        if changed.get(key, False) or (key in changed and not differs):
            continue
        stage = job.graph.stages[key[0]]
        if key not in changed:
            _renew(job, key, again, not_before)
            pending += _together(job, key)
        changed[key] = differs
        differs = differs or not is_determinate(stage, job.graph.outputs[key[0]])
        for reader in readers_of(job.graph, key):
            task = job.tasks[reader]
            if task.active or (task.finished and differs):
                pending.append((reader, differs))
    return again


def _renew(job: Job, key: Key, again: Again, not_before: float) -> None:
    task, stage = job.tasks[key], job.graph.stages[key[0]]
    if not task.given:
        return
    if key[0] in job.published or key[0] in job.publishing:
        again.published = stage.path
        return
    again.over[key] = task
    job.tasks[key] = task.again(not_before)


def _together(job: Job, key: Key) -> list[tuple[Key, bool]]:
    """The tasks that run with `key`, and the producers that it can't do without."""
    region = job.graph.stages[key[0]].region
    stages = {stage.stage for stage in job.graph.regions()[region]}
    mates = [other for other in job.tasks if other[0] in stages] if job.pipelined(region) else []
    lost = [p for p in producers_of(job.graph, key) if job.tasks[p].lost]
    return [(other, False) for other in (*mates, *lost)]


def _is_wanted(job: Job, key: Key) -> bool:
    if key[0] in job.published or key[0] in job.publishing:
        return False
    if any(edge.is_result for edge in job.graph.outputs[key[0]]):
        return True
    return any(not job.tasks[reader].finished for reader in readers_of(job.graph, key))
