"""What a coordinator remembers is bounded, in memory and in its store, also after a restart."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.agents.agents import PAST_KEPT
from fabric.coordinator.core.events import JobReleased, JobRestarted, Tick
from fabric.coordinator.core.jobs import records
from fabric.coordinator.core.jobs.job_registry import ATTEMPTS_KEPT
from fabric.coordinator.runtime.runtime import page

ERROR = pb.ErrorDetail(kind="DataError", message="a bad row")


def fail(world: Any, graphs: SimpleNamespace, job_id: str) -> None:
    """A job of one task that fails."""
    stages = (graphs.stage(0, 1),)
    world.submit(type(graphs.shuffle())(stages, (graphs.edge(0, 0, -1, 1),)), job_id)
    world.report("x", 0, 0, pb.TASK_FAILED, job_id=job_id, error=ERROR)


def whole(world: Any) -> list[str]:
    """Jobs whose stages are still known, by their records."""
    return [job_id for job_id, _ in world.store.scan("plans")]


def test_ended_jobs_are_kept_whole_up_to_a_number(make_world: Any, graphs: SimpleNamespace) -> None:
    world = make_world(jobs_kept_max=2, retain_failed_s=100.0)
    world.attach("x")
    for number in range(4):
        fail(world, graphs, f"job-{number}")
        world.do(Tick(0.0), after=1.0)
        world.say("x", heartbeat=pb.Heartbeat())
    assert whole(world) == ["job-2", "job-3"]
    assert [drop.job_id for drop in world.heard("x", "release")] == ["job-0", "job-1"]
    assert [world.state(f"job-{n}") for n in range(4)] == ["failed"] * 4
    world.start()  # the next coordinator goes by the same bound, and by the same time
    world.attach("x")
    fail(world, graphs, "job-4")
    world.do(Tick(0.0), after=1.0)
    assert whole(world) == ["job-3", "job-4"]


def test_a_restarted_job_is_released_by_its_last_end(
    make_world: Any, graphs: SimpleNamespace
) -> None:
    world = make_world(retain_failed_s=10.0, timeout_s=100.0)
    world.attach("x")
    fail(world, graphs, "job-1")
    world.do(JobRestarted("job-1"), after=6.0)
    world.report("x", 0, 0, pb.TASK_FAILED, job_id="job-1", attempt=1, error=ERROR)
    world.do(Tick(0.0), after=6.0)
    assert whole(world) == ["job-1"]  # ten seconds after the first end
    world.do(Tick(0.0), after=4.0)
    assert whole(world) == []


def test_of_a_task_the_newest_attempts_are_remembered(
    make_world: Any, graphs: SimpleNamespace
) -> None:
    world = make_world(retain_failed_s=1e6, timeout_s=1e6)
    world.attach("x")
    fail(world, graphs, "job-1")
    n_attempts = ATTEMPTS_KEPT + 10
    for attempt in range(1, n_attempts):
        world.do(JobRestarted("job-1"), after=1.0)
        world.report("x", 0, 0, pb.TASK_FAILED, job_id="job-1", attempt=attempt, error=ERROR)
    newest = list(range(n_attempts - ATTEMPTS_KEPT - 1, n_attempts))
    for _ in range(2):
        told = world.core.registry.tasks("job-1")
        assert [task.attempt for task in told] == newest
        assert len(list(world.store.scan("attempts"))) == ATTEMPTS_KEPT
        world.start()  # the next coordinator knows as many


def test_of_agents_that_are_gone_few_are_remembered(make_world: Any) -> None:
    world = make_world()
    world.attach("stays")
    for number in range(PAST_KEPT + 10):
        world.attach(f"agent-{number:04}")
        world.say(f"agent-{number:04}", goodbye=pb.Goodbye(reason="scaled in"))
    world.attach("agent-0011")  # one that was gone, and came back
    names = [name for name, _ in world.store.scan("agents")]
    assert names == [*(f"agent-{n:04}" for n in range(10, PAST_KEPT + 10)), "stays"]
    for number in range(20):
        hello = pb.Hello(agent_id=f"old-{number:02}")
        old = records.agent_record(hello, "failed", draining=False, seen_s=number)
        world.store.apply([old])
    world.start()
    names = [name for name, _ in world.store.scan("agents")]
    assert len(names) == PAST_KEPT
    assert "stays" in names
    assert "old-00" not in names  # seen longest ago


def test_a_restart_over_a_long_history(make_world: Any, graphs: SimpleNamespace) -> None:
    world = make_world()
    n, kept = 12_000, world.config.jobs_kept_max
    past = [
        pb.JobStatus(job_id=f"job-{i:05}", submitted_s=float(i), state=pb.JOB_RELEASED)
        for i in range(n)
    ]
    world.store.apply([records.past_record(status) for status in past])
    world.start()
    found = world.core.registry.statuses(world.now)
    assert [job.job_id for job in found] == [status.job_id for status in past[n - kept :]]
    assert len(list(world.store.scan("jobs"))) == kept
    newest = page(found, pb.ListRequest(limit=3))
    assert [job.job_id for job in newest.jobs] == ["job-11997", "job-11998", "job-11999"]
    older = page(found, pb.ListRequest(limit=2, before=newest.next))
    assert [job.job_id for job in older.jobs] == ["job-11995", "job-11996"]
    world.attach("x")
    world.submit(graphs.shuffle(), "job-new")
    world.do(JobReleased("job-new"))
    for task in (0, 1):
        world.report("x", 0, task, pb.TASK_CANCELLED, job_id="job-new")
    assert len(list(world.store.scan("jobs"))) == kept  # one came, one went
    assert world.state("job-new") == "released"
