"""Whatever the network does to reports (lost, doubled, reordered, late), the core stays sound."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.events import JobCancelled, JobReleased, Tick

STATES = (pb.TASK_RUNNING, pb.TASK_FINISHED, pb.TASK_FAILED, pb.TASK_CANCELLED)
REPORT = st.tuples(
    st.sampled_from("xy"),
    st.integers(0, 2),
    st.integers(0, 1),
    st.sampled_from((*STATES, pb.TASK_FINISHED, pb.TASK_FINISHED)),
    st.integers(0, 1),
)
OTHER = st.sampled_from(["tick", "lose", "attach", "cancel", "release", "sink"])


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(REPORT | REPORT | REPORT | OTHER, max_size=40), sink=st.booleans())
def test_sound_in_any_order(
    make_world: Any, graphs: SimpleNamespace, steps: list[Any], sink: bool
) -> None:
    world = make_world()
    world.attach("x", "y")
    world.submit(graphs.shuffle(sink=True) if sink else graphs.piped())
    was = "running"
    for step in steps:
        match step:
            case (agent, stage, task, state, attempt):
                world.report(agent, stage, task, state, attempt=attempt, sink_handle=b"h")
            case "tick":
                world.do(Tick(0.0), after=1.0)
            case "lose":
                world.detach("y")
            case "attach":
                world.attach("y")
            case "cancel":
                world.do(JobCancelled("job-1", "enough"))
            case "release":
                world.do(JobReleased("job-1"))
            case "sink":
                world.say(
                    "x", sink=pb.SinkReport(job_id="job-1", stage=1, abandoned=pb.SinkAbandon())
                )
        now = world.state()
        assert was in (now, "running") or now == "released"  # no way back
        was = now
    for _ in range(11):  # whatever was lost: what stops has ended by then
        world.say("x", heartbeat=pb.Heartbeat())
        world.do(Tick(0.0), after=1.0)
    stops = any(step in ("cancel", "release") for step in steps)
    assert not stops or world.state() != "running" or world.heard("x", "sink")
    deployed = [
        (deploy.stage, task.task, task.attempt)
        for agent in "xy"
        for deploy in world.heard(agent, "deploy")
        for task in deploy.tasks
    ]
    assert len(deployed) == len(set(deployed))  # nothing runs twice
    publishes = [c for agent in "xy" for c in world.heard(agent, "sink") if c.HasField("publish")]
    if was == "finished":
        assert bool(publishes) is sink
    if was == "cancelled":
        assert not publishes
