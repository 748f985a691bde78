"""Sinks: published once, by whoever is there; removed when the job fails, whoever wrote them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.events import AgentAttached, AgentDrained, JobCancelled
from fabric.plan.codec import decode

ERROR = pb.ErrorDetail(kind="ExpressionError", message="division by zero")


def test_sinks_are_published_once_all_tasks_have_finished(
    world: Any, graphs: SimpleNamespace
) -> None:
    world.submit(graphs.shuffle(sink=True))
    world.run_first_stage()
    world.finish("x", 1, 0, sink_handle=b"h0")
    assert not world.heard("x", "sink")
    world.finish("y", 1, 1, sink_handle=b"h1")
    (command,) = world.heard("x", "sink")
    assert (command.WhichOneof("verb"), list(command.handles)) == ("publish", [b"h0", b"h1"])
    assert world.state() == "running"
    world.do(JobCancelled("job-1", ""))
    assert world.state() == "running"  # what is being published can't be taken back
    world.say("y", sink=pb.SinkReport(job_id="job-1", stage=1, published=pb.SinkPublish()))
    assert world.core.refused["sink not asked"] == 1
    world.say("x", sink=pb.SinkReport(job_id="job-1", stage=1, published=pb.SinkPublish()))
    assert world.state() == "finished"


def test_rows_written_are_the_rows_of_a_job_with_a_sink(
    world: Any, graphs: SimpleNamespace
) -> None:
    world.submit(graphs.shuffle(sink=True))
    world.run_first_stage()
    for agent, task in (("x", 0), ("y", 1)):
        one_row = [pb.EdgeTotals(edge=1, rows=1)]
        world.finish(agent, 1, task, sink_handle=b"h", rows_out=50, outputs=one_row)
    assert world.core.registry.status("job-1", world.now).result_rows == 100


def test_a_sink_that_can_not_publish_fails_the_job(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(graphs.shuffle(sink=True))
    world.run_first_stage()
    world.finish("x", 1, 0, sink_handle=b"h0")
    world.finish("y", 1, 1, sink_handle=b"h1")
    error = pb.ErrorDetail(kind="StorageError", message="disk full")
    refused = pb.SinkReport(job_id="job-1", stage=1, error=error, published=pb.SinkPublish())
    world.say("x", sink=refused)
    assert world.state() == "running"
    world.say("x", sink=pb.SinkReport(job_id="job-1", stage=1, abandoned=pb.SinkAbandon()))
    assert world.state() == "failed"
    assert [c.WhichOneof("verb") for c in world.heard("x", "sink")] == ["publish", "abandon"]


def test_what_a_lost_agent_wrote_aside_is_removed_by_another(
    world: Any, graphs: SimpleNamespace
) -> None:
    """Nobody has finished, so nothing is known of what lies there; the stage itself says."""
    world.submit(graphs.shuffle(sink=True))
    world.run_first_stage()
    world.report("y", 1, 1, pb.TASK_FAILED, error=ERROR)
    world.detach("x")
    (command,) = world.heard("y", "sink")
    assert command.WhichOneof("verb") == "abandon"
    assert not command.handles
    assert decode(command.fragment).root == graphs.shuffle(sink=True).stages[1].root
    assert world.state() == "running"
    world.say("y", sink=pb.SinkReport(job_id="job-1", stage=1, abandoned=pb.SinkAbandon()))
    assert world.state() == "failed"


def test_what_a_sink_prepared_stays_when_its_output_has_moved(
    world: Any, graphs: SimpleNamespace
) -> None:
    """The agent that drains has a copy of what counts; its sink is still to be published."""
    world.submit(graphs.shuffle(sink=True))
    world.run_first_stage()
    world.finish("x", 1, 0, sink_handle=b"h0")
    world.do(AgentDrained("x", undo=False))
    for adopt in world.heard("y", "adopt"):
        world.say("y", adopted=pb.Adopted(number=adopt.number))
    key = pb.TaskKey(job_id="job-1", stage=1, task=0, epoch=1)
    held = pb.TaskReport(key=key, state=pb.TASK_FINISHED, sink_handle=b"h0")
    hello = pb.Hello(agent_id="x", address="grpc+tcp://x", cpus=4, slots=4, tasks=[held])
    world.do(AgentAttached(9, hello))  # its link was broken for a moment
    (cancel,) = world.heard("x", "cancel")
    assert (list(cancel.keys), cancel.moved) == ([key], True)
    world.finish("y", 1, 1, sink_handle=b"h1")
    (command,) = world.heard("y", "sink")
    assert (command.WhichOneof("verb"), list(command.handles)) == ("publish", [b"h0", b"h1"])


def test_publishing_goes_on_elsewhere_when_the_agent_is_lost(
    world: Any, graphs: SimpleNamespace
) -> None:
    world.submit(graphs.shuffle(sink=True))
    world.run_first_stage()
    world.finish("x", 1, 0, sink_handle=b"h0")
    world.finish("y", 1, 1, sink_handle=b"h1")
    world.detach("x")
    (command,) = world.heard("y", "sink")
    assert (command.WhichOneof("verb"), list(command.handles)) == ("publish", [b"h0", b"h1"])
    world.say("y", sink=pb.SinkReport(job_id="job-1", stage=1, published=pb.SinkPublish()))
    assert world.state() == "finished"


def test_publishing_waits_for_an_agent(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(graphs.shuffle(sink=True))
    world.run_first_stage()
    world.finish("x", 1, 0, sink_handle=b"h0")
    world.finish("y", 1, 1, sink_handle=b"h1")
    world.detach("y")
    world.detach("x")
    assert world.state() == "running"
    world.attach("z")
    (command,) = world.heard("z", "sink")
    assert (command.WhichOneof("verb"), list(command.handles)) == ("publish", [b"h0", b"h1"])
    world.say("z", sink=pb.SinkReport(job_id="job-1", stage=1, published=pb.SinkPublish()))
    assert world.state() == "finished"
