"""A running stream changes its number of tasks.

    JobReplanned ─► a last checkpoint ─► its attempts are over
      ─► they have left, and all that is complete is published
      ─► `switch`: other stages and tasks ─► restored from the newest checkpoint, by key groups

One job: what may be rescaled, and `switch`. Until the tasks have left the job keeps the stages that
they are of, so whatever still comes from them is understood. The number of tasks is written down
with the switch: a coordinator that ends before it has promised nothing, and who asked asks again.
"""

from __future__ import annotations

from fabric.coordinator.core.events import JobReplanned
from fabric.coordinator.core.jobs.jobs import Job
from fabric.coordinator.core.jobs.tasks import Task, Tasks
from fabric.coordinator.core.scheduling.slots import slots_needed
from fabric.coordinator.planner.draft import MAX_PARALLELISM
from fabric.coordinator.planner.node_records import node_records, splits_of
from fabric.coordinator.planner.placement import Placement
from fabric.coordinator.planner.stages import Key
from fabric.errors import ConfigError, PlanError


def check_rescale(job: Job, parallelism: int) -> None:
    """Refuse to rescale what is no stream, or does not go on, and a number that can't be."""
    if job.stream is None:
        raise ConfigError(
            f"job {job.job_id} is no stream: a stage takes its number of tasks when it starts; "
            "submit the plan with another parallelism",
            job=job.job_id,
        )
    if not job.active or job.stopping is not None or job.stream.phase == "ended":
        raise ConfigError(
            f"job {job.job_id} no longer runs; a stream with a name goes on with another "
            "parallelism when its program is run again",
            job=job.job_id,
        )
    if not job.plan:
        raise ConfigError(
            f"job {job.job_id} was submitted to a coordinator of an older release, which did not "
            "keep its plan; stop it, and run its program again with another parallelism",
            job=job.job_id,
        )
    if not 1 <= parallelism <= MAX_PARALLELISM:
        raise ConfigError(
            f"parallelism must be 1 to {MAX_PARALLELISM}, got {parallelism}", job=job.job_id
        )
    if job.rescaling not in (0, parallelism) and not job.waiting:
        raise ConfigError(
            f"job {job.job_id} is already being rescaled to parallelism {job.rescaling}; try again "
            "when its tasks run",
            job=job.job_id,
        )
    if job.published or job.publishing:
        raise ConfigError(
            f"job {job.job_id} has published what its bounded part writes, which would be written "
            "twice; write that in a job of its own",
            job=job.job_id,
        )


def check_fits(job: Job, event: JobReplanned, n_slots: int) -> None:
    """Refuse stages that can't take over from those that run: `n_slots` are free, or the job's."""
    if (needed := slots_needed(event.graph)) > n_slots:
        raise ConfigError(
            f"with parallelism={event.parallelism} the stream needs {needed} slots at once, and "
            f"there are {n_slots} for it, so it would stand still; start agents, or stop other "
            "streams, and try again",
            job=job.job_id,
        )
    was, now = (
        {each.path: each for each in node_records(graph)} for graph in (job.graph, event.graph)
    )
    if was != now:
        differing = sorted(
            path for path in was.keys() | now.keys() if was.get(path) != now.get(path)
        )
        raise PlanError(
            f"with parallelism={event.parallelism} the plan has other steps than those that run, "
            f"at {', '.join(differing[:5])}; stop the stream, and run its program again",
            job=job.job_id,
        )
    there = splits_of(event.graph)
    for path, splits in splits_of(job.graph).items():
        if gone := sorted(splits - there.get(path, set())):
            raise PlanError(
                f"the source {path} has no split {gone[0]!r} any more, of which rows may be "
                "missing; stop the stream, and run its program again",
                job=job.job_id,
            )


def may_switch(job: Job) -> bool:
    """Whether nothing is left of the tasks that ran, and nothing owed."""
    stream = job.stream
    return (
        stream is not None
        and stream.phase in ("quiet", "ready")
        and not job.leaving
        and not job.busy()
        and stream.checkpoints.settled
    )


def switch(job: Job, new: JobReplanned, placement: Placement) -> list[Key]:
    """Give a job the stages and tasks that it was replanned into; returns tasks that are no more.

    All tasks begin with an attempt that no task of the job has had: agents tell attempts apart by
    stage, task and attempt, and (1, 2) may have been another task before.
    """
    stream = job.stream
    assert stream is not None
    attempt = 1 + max(task.attempt for task in job.tasks.values())
    before = list(job.tasks)
    job.graph, job.fragments, job.parallelism = new.graph, new.fragments, new.parallelism
    job.tasks = Tasks(placement)
    for key, task in job.tasks.items():
        job.tasks[key] = Task(task.agent_id, attempt)
    job.planned, job.replanned = set(), None
    region = job.graph.stream_region
    assert region is not None  # the same plan reads a stream
    stream.region, stream.phase, stream.manifest, stream.seal = region, "quiet", None, None
    stream.checkpoints.replanned(node_records(job.graph))
    return [key for key in before if job.tasks.get(key) is None]
