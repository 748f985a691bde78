"""Who gets a slot, and when: slots, turns, throttling, draining, loss, retries."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.events import AgentDrained, JobRestarted, Tick
from fabric.io.readers import stream_schema
from fabric.plan.nodes import StreamScan
from fabric.plan.sources import GeneratorStream

AWAY = pb.ErrorDetail(kind="PeerLostError", message="no answer")


def wide(graphs: SimpleNamespace, n_tasks: int) -> Any:
    stages = (graphs.stage(0, n_tasks),)
    return type(graphs.shuffle())(stages, (graphs.edge(0, 0, -1, n_tasks),))


def given(world: Any, job_id: str) -> list[tuple[str, int]]:
    return [
        (agent, task.task)
        for agent in "xy"
        for deploy in world.heard(agent, "deploy")
        if deploy.job_id == job_id
        for task in deploy.tasks
    ]


def test_tasks_wait_for_slots_and_jobs_take_turns(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(wide(graphs, 12), "job-1")
    assert len(given(world, "job-1")) == 8  # two agents of four slots
    world.submit(wide(graphs, 12), "job-2")
    assert world.state("job-2") == "queued"
    done = given(world, "job-1")
    for agent, task in done[:4]:
        world.finish(agent, 0, task, job_id="job-1")
    assert len(given(world, "job-2")) == 4  # it has fewer at work, so the free slots are its
    assert len(given(world, "job-1")) == 8
    for agent, task in done[4:8]:
        world.finish(agent, 0, task, job_id="job-1")
    assert (len(given(world, "job-1")), len(given(world, "job-2"))) == (12, 4)


def test_an_overloaded_or_draining_agent_is_given_nothing(
    world: Any, graphs: SimpleNamespace
) -> None:
    world.submit(wide(graphs, 1), "job-0")
    assert given(world, "job-0") == [("x", 0)]
    world.say("x", heartbeat=pb.Heartbeat(sequence=1, overloaded=True))
    world.submit(wide(graphs, 6), "job-1")
    assert {agent for agent, _ in given(world, "job-1")} == {"y"}
    world.do(AgentDrained("y"))
    for agent, task in given(world, "job-1"):
        world.finish(agent, 0, task, job_id="job-1")
    assert len(given(world, "job-1")) == 4
    world.say("x", heartbeat=pb.Heartbeat(sequence=2))
    assert given(world, "job-1")[-1][0] == "y" or ("x", 4) in given(world, "job-1")
    assert len(given(world, "job-1")) == 6


def test_overloaded_is_said_of_tasks_that_run(world: Any, graphs: SimpleNamespace) -> None:
    """Until its next heartbeat an agent was left out, with nothing to do."""
    world.submit(wide(graphs, 1), "job-0")
    world.say("x", heartbeat=pb.Heartbeat(sequence=1, overloaded=True))
    world.finish("x", 0, 0, job_id="job-0")
    world.submit(wide(graphs, 2), "job-1")
    assert {agent for agent, _ in given(world, "job-1")} == {"x", "y"}


def test_a_failure_that_may_pass_is_tried_again_after_a_pause(
    make_world: Any, graphs: SimpleNamespace
) -> None:
    world = make_world(attempts_max=3, retry_s=1.0)
    world.attach("x")
    world.submit(wide(graphs, 1))
    for attempt, pause_s in ((0, 1.0), (1, 2.0)):
        world.report("x", 0, 0, pb.TASK_FAILED, error=AWAY, attempt=attempt)
        world.say("x", heartbeat=pb.Heartbeat())
        world.do(Tick(0.0), after=pause_s / 2)
        assert len(given(world, "job-1")) == attempt + 1
        world.do(Tick(0.0), after=pause_s / 2)
        assert len(given(world, "job-1")) == attempt + 2
    world.report("x", 0, 0, pb.TASK_FAILED, error=AWAY, attempt=2)
    status = world.core.registry.status("job-1", world.now)
    assert (status.state, status.n_attempts) == (pb.JOB_FAILED, 2)
    assert status.error.message == "no answer (attempt 3 of 3)"
    assert [error.message for error in status.errors] == ["no answer"] * 3


def test_an_owner_that_is_away_is_waited_for(make_world: Any, graphs: SimpleNamespace) -> None:
    """It starts again, which is no fault of the task; but not for ever."""
    world = make_world(attempts_max=2, owner_wait_s=45.0)
    world.attach("x", "y")
    world.submit(wide(graphs, 1))
    owner = pb.ErrorDetail(kind="PeerLostError", message="no answer", agent="y")
    world.detach("y")
    attempt, began_s = 0, world.now
    while world.now < began_s + 40.0:
        world.report("x", 0, 0, pb.TASK_FAILED, error=owner, attempt=attempt)
        assert world.state() == "running"
        world.say("x", heartbeat=pb.Heartbeat())
        world.do(Tick(0.0), after=4.0)  # the longest pause
        attempt += 1
        assert len(given(world, "job-1")) == attempt + 1
    again = pb.ErrorDetail(kind="PeerLostError", message="no answer", agent="z")
    world.report("x", 0, 0, pb.TASK_FAILED, error=again, attempt=attempt)  # counts, the first
    world.say("x", heartbeat=pb.Heartbeat())
    world.do(Tick(0.0), after=5.0)
    world.report("x", 0, 0, pb.TASK_FAILED, error=owner, attempt=attempt + 1)
    error = world.core.registry.status("job-1", world.now).error
    assert error.message.startswith("no answer (agent y has been away for 4")
    assert world.state() == "failed"


def test_only_what_is_still_read_is_done_again(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(graphs.shuffle())
    for agent, task in (("x", 0), ("y", 1)):
        world.finish(agent, 0, task)
    world.finish("y", 1, 1)  # has read all it needed
    world.detach("x")  # had 0.0's rows and ran 1.0
    deploys = [(d.stage, t.task, t.attempt) for d in world.heard("y", "deploy") for t in d.tasks]
    assert deploys[2:] == [(0, 0, 1)]
    world.finish("y", 0, 0, attempt=1)
    world.finish("y", 1, 0, attempt=1)
    status = world.core.registry.status("job-1", world.now)
    assert (status.state, status.n_attempts) == (pb.JOB_FINISHED, 2)


def test_a_pipelined_region_that_has_too_few_slots_is_materialised(
    make_world: Any, graphs: SimpleNamespace
) -> None:
    world = make_world()
    world.attach("x")  # four slots; the region has four tasks
    world.submit(graphs.piped())
    for task in (0, 1):
        world.finish("x", 0, task)
    assert [d.stage for d in world.heard("x", "deploy")] == [0, 1, 2]
    small = make_world()
    small.attach_with(2, "x")
    small.submit(graphs.piped())
    for task in (0, 1):
        small.finish("x", 0, task)
    last = small.heard("x", "deploy")[-1]
    assert [edge.mode for edge in last.outputs] == [pb.MODE_MATERIALISED]
    kinds = [event.kind for event in small.core.registry.events(pb.EventsRequest()).events]
    assert "slots are short" in kinds


def test_a_restart_does_again_what_follows_from_a_node(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(graphs.shuffle())
    for agent, task in (("x", 0), ("y", 1)):
        world.finish(agent, 0, task)
    for agent, task in (("x", 0), ("y", 1)):
        world.finish(agent, 1, task)
    assert world.state() == "finished"
    world.do(JobRestarted("job-1", "node_1"))
    status = world.core.registry.status("job-1", world.now)
    assert (status.state, status.run, status.n_attempts) == (pb.JOB_RUNNING, 1, 2)
    assert [d.run for d in world.heard("x", "deploy")] == [0, 0, 1]
    for agent, task in (("x", 0), ("y", 1)):
        world.finish(agent, 1, task, attempt=1)
    assert world.state() == "finished"


def test_a_restart_with_everything_there_ends_at_once(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(graphs.shuffle())
    for stage in (0, 1):
        for agent, task in (("x", 0), ("y", 1)):
            world.finish(agent, stage, task)
    n_deploys = len(world.heard("x", "deploy"))
    world.do(JobRestarted("job-1", ""))
    assert world.state() == "finished"
    assert world.core.registry.status("job-1", world.now).run == 1
    assert len(world.heard("x", "deploy")) == n_deploys


def stream_of(graphs: SimpleNamespace, n_tasks: int) -> Any:
    """Two stages of a stream: tasks of one number share a slot."""
    source = GeneratorStream(n_splits=n_tasks)
    scan = StreamScan(source, stream_schema(source), path="made")
    first = replace(graphs.stage(0, n_tasks), root=scan, kind="chain", path="made")
    second = replace(graphs.stage(1, n_tasks), region=first.region, kind="chain")
    edges = (
        replace(graphs.edge(0, 0, 1, n_tasks), mode="pipelined"),
        graphs.edge(1, 1, -1, n_tasks),
    )
    return type(graphs.shuffle())((first, second), edges)


def waits(world: Any) -> str:
    return str(world.core.registry.status("job-1", world.now).waiting)


def test_a_stream_without_slots_says_what_it_waits_for(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(stream_of(graphs, 9), "job-1")
    assert world.state("job-1") == "queued"
    assert waits(world) == "needs 9 slots at once, the fabric has 8"
    assert [
        e.text for e in world.core.registry.events(pb.EventsRequest()).events if "short" in e.kind
    ]
    world.attach("z")
    assert world.state("job-1") == "running"
    assert waits(world) == ""


def test_what_streams_leave_no_slot_says_so(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(stream_of(graphs, 8), "job-0")
    world.submit(wide(graphs, 3), "job-1")
    assert world.state("job-1") == "queued"
    held = "needs a slot, and streams hold all 8; give a stream fewer tasks, or add slots"
    assert waits(world) == held
    world.attach("z")
    assert waits(world) == ""
    assert world.state("job-1") == "running"


def test_a_stream_says_that_others_have_its_slots(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(wide(graphs, 3), "job-0")
    world.submit(stream_of(graphs, 6), "job-1")
    assert waits(world) == "needs 6 slots at once, the fabric has 8, of which 5 are free"
    for agent, task in given(world, "job-0"):
        world.finish(agent, 0, task, job_id="job-0")
    assert waits(world) == ""
    assert len(given(world, "job-1")) == 12
