"""The state machine by script: what each event leads to, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.events import (
    AgentAttached,
    AgentDetached,
    DatasetAsked,
    JobCancelled,
    JobReleased,
    Tick,
)
from fabric.errors import FabricError, InternalError, NotFoundError, PeerLostError

ERROR = pb.ErrorDetail(kind="ExpressionError", message="division by zero")


def test_welcome_comes_first_then_the_whole_table(world: Any) -> None:
    first, second = (send.message for send in world.sent if send.agent_id == "y")
    assert first.welcome == pb.Welcome(epoch=1, heartbeat_s=1.0, timeout_s=5.0)
    assert second.locations.full
    assert dict(second.locations.addresses) == {"x": "grpc+tcp://x", "y": "grpc+tcp://y"}
    assert dict(world.heard("x", "locations")[-1].addresses) == {"y": "grpc+tcp://y"}


def test_a_job_from_submit_to_result(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(graphs.shuffle())
    assert world.state() == "running"
    (deploy,) = world.heard("x", "deploy")
    assert (deploy.stage, deploy.n_tasks, deploy.epoch) == (0, 2, 1)
    assert [task.task for task in deploy.tasks] == [0]
    assert deploy.target_partitions == 4
    world.report("x", 0, 0, pb.TASK_RUNNING)
    world.finish("x", 0, 0)
    assert len(world.heard("x", "deploy")) == 1  # stage 1 waits for the other producer
    world.finish("y", 0, 1)
    deploy = world.heard("y", "deploy")[-1]
    assert deploy.stage == 1
    assert [(p.task, p.agent_id) for p in deploy.inputs[0].producers] == [(0, "x"), (1, "y")]
    assert dict(deploy.addresses) == {"x": "grpc+tcp://x", "y": "grpc+tcp://y"}
    world.finish(
        "x",
        1,
        0,
        rows_out=3,
        outputs=[pb.EdgeTotals(edge=1, rows=3, bytes=9)],
        backpressure_ratio=0.25,
    )
    world.finish("y", 1, 1, rows_out=4, outputs=[pb.EdgeTotals(edge=1, rows=4, bytes=9)])
    status = world.core.registry.status("job-1", world.now)
    assert (status.state, status.result_path, status.result_rows) == (
        pb.JOB_FINISHED, "edge_1", 7,
    )  # fmt: skip
    assert [stage.backpressure_ratio for stage in status.stages] == [0, 0.25]
    assert not world.core.refused


def test_tasks_on_one_host_share_its_processors(world: Any, graphs: SimpleNamespace) -> None:
    for agent_id in ("x", "y"):
        hello = pb.Hello(agent_id=agent_id, address=f"grpc+tcp://{agent_id}", host="h", cpus=6)
        world.do(AgentAttached(world.sessions[agent_id], hello))
    world.submit(graphs.shuffle())
    assert [world.heard(a, "deploy")[0].target_partitions for a in ("x", "y")] == [3, 3]


def test_sockets_are_told_with_addresses(world: Any) -> None:
    unix = pb.UnixSocket(host_id="h", path="/s")
    world.attach("old")
    world.n_sessions += 1
    hello = pb.Hello(agent_id="z", address="grpc+tcp://z", socket=unix)
    world.do(AgentAttached(world.n_sessions, hello))
    change, table = world.heard("old", "locations")[-1], world.heard("z", "locations")[-1]
    assert (dict(change.addresses), dict(change.sockets)) == ({"z": "grpc+tcp://z"}, {"z": unix})
    assert (table.full, dict(table.sockets)) == (True, {"z": unix})
    assert "old" in table.addresses


def test_locations_name_what_is_sealed(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(graphs.shuffle())
    listed = world.heard("y", "locations")[-1].edges
    assert [(edge.edge, edge.complete, len(edge.producers)) for edge in listed] == [
        (0, False, 0), (1, False, 0),
    ]  # fmt: skip
    world.run_first_stage()
    (edge,) = world.heard("x", "locations")[-1].edges
    assert (edge.complete, edge.rows, edge.bytes) == (True, 12, 120)
    versions = [table.version for table in world.heard("x", "locations")]
    assert versions == sorted(set(versions))
    assert versions[0] >> 32 == 1
    found = world.core.locate(pb.LocateRequest(job_id="job-1"))
    assert [edge.node_path for edge in found.edges] == ["edge_0", "edge_1"]


def test_a_pipelined_region_goes_to_all_its_agents_at_once(
    world: Any, graphs: SimpleNamespace
) -> None:
    world.submit(graphs.piped())
    world.run_first_stage()
    told = {agent: [d.stage for d in world.heard(agent, "deploy")] for agent in "xy"}
    assert told == {"x": [0, 1, 2], "y": [0, 1, 2]}
    edges = world.core.locate(pb.LocateRequest(job_id="job-1")).edges
    assert [edge.edge for edge in edges] == [0, 1, 2]
    # a pipelined one is tapped while its producers run, so they are all named from the start
    assert [len(edge.producers) for edge in edges] == [2, 2, 0]


def test_one_failed_task_ends_the_job(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(graphs.shuffle(sink=True))
    world.submit(graphs.shuffle(), "job-2")
    world.run_first_stage()
    world.finish("x", 1, 0, sink_handle=b"h0")
    world.report("y", 1, 1, pb.TASK_FAILED, error=ERROR)
    world.say("x", sink=pb.SinkReport(job_id="job-1", stage=1, abandoned=pb.SinkAbandon()))
    status = world.core.registry.status("job-1", world.now)
    assert status.state == pb.JOB_FAILED
    assert status.error == pb.ErrorDetail(
        kind="ExpressionError",
        message="division by zero",
        job="job-1",
        node="node_1",
        task="job-1/1.1#0",
        agent="y",
    )
    assert [c.job_id for c in world.heard("x", "cancel")] == ["job-1"]
    (abandon,) = world.heard("x", "sink")
    assert (abandon.HasField("publish"), list(abandon.handles)) == (False, [b"h0"])
    assert world.state("job-2") == "running"


def test_a_job_ends_when_its_tasks_have_and_nothing_is_left(
    world: Any, graphs: SimpleNamespace
) -> None:
    world.submit(graphs.shuffle(sink=True))
    world.run_first_stage()
    world.do(JobCancelled("job-1", "no longer wanted"))
    world.do(JobCancelled("job-1", "twice"))
    assert [c.reason for c in world.heard("x", "cancel")] == ["no longer wanted"]
    world.finish("y", 1, 1, sink_handle=b"h1")  # it was faster than the cancel
    assert not world.heard("x", "sink")
    world.report("x", 1, 0, pb.TASK_FAILED, error=ERROR)
    (abandon,) = world.heard("x", "sink")
    assert (abandon.HasField("publish"), list(abandon.handles)) == (False, [b"h1"])
    assert (world.state(), world.core.refused) == ("running", {})
    world.say("x", sink=pb.SinkReport(job_id="job-1", stage=1, abandoned=pb.SinkAbandon()))
    assert (world.state(), world.core.refused) == ("cancelled", {})
    assert "no longer wanted" in world.core.registry.status("job-1", world.now).error.message


def test_a_lost_agent_removes_nothing_so_another_does(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(graphs.shuffle(sink=True))
    world.run_first_stage()
    world.finish("x", 1, 0, sink_handle=b"h0")
    world.report("y", 1, 1, pb.TASK_FAILED, error=ERROR)
    assert world.heard("x", "sink")
    world.detach("x")
    (abandon,) = world.heard("y", "sink")
    assert (abandon.HasField("publish"), list(abandon.handles)) == (False, [b"h0"])
    world.say("y", sink=pb.SinkReport(job_id="job-1", stage=1, abandoned=pb.SinkAbandon()))
    assert world.core.registry.status("job-1", world.now).error.kind == "ExpressionError"


def test_a_task_that_does_not_stop_holds_nobody_up_for_ever(
    make_world: Any, graphs: SimpleNamespace
) -> None:
    world = make_world(stop_s=3.0)
    world.attach("x", "y")
    world.submit(graphs.shuffle(sink=True))
    world.run_first_stage()
    world.do(JobCancelled("job-1", "no longer wanted"))
    for _ in range(5):
        assert world.state() == "running"
        world.do(Tick(0.0), after=0.5)
    world.do(Tick(0.0), after=0.5)
    assert world.state() == "cancelled"
    world.finish("y", 1, 1, sink_handle=b"h1")
    (abandon,) = world.heard("y", "sink")
    assert (abandon.HasField("publish"), list(abandon.handles)) == (False, [b"h1"])
    assert world.core.refused == {"late": 1}


def test_silence_is_loss(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(graphs.shuffle())
    for _ in range(10):
        world.do(Tick(0.0), after=0.5)
        world.say("y", heartbeat=pb.Heartbeat(sequence=1))
    assert world.attached() == ["x", "y"]
    world.do(Tick(0.0), after=0.5)
    assert world.attached() == ["y"]
    (error,) = world.core.registry.status("job-1", world.now).errors
    assert "it sent no heartbeat for 5.5 s" in error.message
    assert (error.agent, error.task) == ("x", "job-1/0.0#0")
    full = [table for table in world.heard("y", "locations") if table.full]
    assert dict(full[-1].addresses) == {"y": "grpc+tcp://y"}


def test_a_coordinator_that_slept_blames_nobody(world: Any) -> None:
    world.do(Tick(0.0), after=0.5)
    world.do(Tick(0.0), after=3600.0)
    assert world.attached() == ["x", "y"]


def test_embedded_agents_are_not_lost_by_silence(make_world: Any) -> None:
    world = make_world()
    world.core = type(world.core)(world.config, 1, embedded=True)
    world.attach("x")
    for _ in range(20):
        world.do(Tick(0.0), after=1.0)
    assert world.attached() == ["x"]


def test_reattaching_ends_the_old_session(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(graphs.shuffle())
    old = world.sessions["x"]
    world.attach("x")
    world.say("x", old, heartbeat=pb.Heartbeat())
    world.do(AgentDetached("x", old, "late"))
    assert world.core.refused["old session"] == 2
    assert world.attached() == ["x", "y"]


def test_goodbye_is_not_held_against_other_jobs(world: Any) -> None:
    world.say("x", goodbye=pb.Goodbye(reason="stopped"))
    assert world.attached() == ["y"]


@pytest.mark.parametrize(
    ("agent", "fields", "reason"),
    [
        ("x", {"attempt": 1}, "old attempt"),
        ("x", {"job_id": "job-9"}, "unknown job"),
        ("x", {"task": 7}, "unknown task"),
        ("x", {"stage": 9}, "unknown task"),
        ("y", {}, "another agent's task"),
        ("x", {"stage": 1}, "task not deployed"),
        ("x", {"state": pb.TASK_UNKNOWN}, "unknown state"),
        ("x", {"state": 77}, "unknown state"),
        ("x", {"session": 99}, "old session"),
    ],
)
def test_reports_that_do_not_fit_are_refused_and_counted(
    world: Any, graphs: SimpleNamespace, agent: str, fields: dict[str, Any], reason: str
) -> None:
    world.submit(graphs.shuffle())
    before, n_sent = world.core.registry.status("job-1", world.now), len(world.sent)
    chosen = {"stage": 0, "task": 0, "state": pb.TASK_FINISHED} | fields
    world.report(agent, **chosen)
    assert world.core.refused == {reason: 1}
    assert world.core.registry.status("job-1", world.now) == before
    assert len(world.sent) == n_sent


def test_reports_may_come_twice(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(graphs.shuffle())
    for _ in range(2):
        world.report("x", 0, 0, pb.TASK_RUNNING)
        world.finish("x", 0, 0, rows_out=5)
        world.report("x", 0, 0, pb.TASK_FAILED, error=ERROR)
    assert world.core.refused == {"duplicate": 4}
    assert world.state() == "running"
    assert world.core.registry.status("job-1", world.now).stages[0].rows == 5


def test_a_task_of_a_stream_reports_how_far_it_is(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(graphs.shuffle())
    world.report("x", 0, 0, pb.TASK_RUNNING)
    for rows, time_us in ((10, 5), (20, 7)):
        world.report("x", 0, 0, pb.TASK_RUNNING, rows_in=rows, rows_out=1, watermark_us=time_us)
        stage = world.core.registry.status("job-1", world.now).stages[0]
        assert (stage.rows_in, stage.rows, stage.HasField("watermark_us")) == (rows, 1, False)
    world.report("y", 0, 1, pb.TASK_RUNNING, rows_in=1, watermark_us=6)
    stage = world.core.registry.status("job-1", world.now).stages[0]
    assert (stage.rows_in, stage.watermark_us) == (21, 6)  # the least, once all have said one
    assert world.core.refused == {}
    world.finish("x", 0, 0, rows_out=5)
    world.report("x", 0, 0, pb.TASK_RUNNING, rows_in=30, watermark_us=9)
    assert world.core.refused == {"duplicate": 1}


def test_reports_after_the_end_are_late(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(graphs.shuffle())
    world.do(JobCancelled("job-1", "enough"))
    for _ in range(2):
        world.finish("x", 0, 0)
        world.report("y", 0, 1, pb.TASK_CANCELLED)
    assert world.core.refused == {"late": 2}
    assert world.state() == "cancelled"
    assert world.core.registry.status("job-1", world.now).error.kind == "CancelledError"


def test_old_heartbeats_do_not_overwrite_newer_ones(world: Any) -> None:
    world.say("x", heartbeat=pb.Heartbeat(sequence=2, running_tasks=2))
    world.say("x", heartbeat=pb.Heartbeat(sequence=1, running_tasks=9))
    assert [agent.running_tasks for agent in world.core.agents.all(world.now)] == [2, 0]


def test_a_client_key_submits_once(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(graphs.shuffle(), "job-1", key="once")
    world.submit(graphs.shuffle(), "job-2", key="once")
    assert world.core.registry.job_of_key("once") == "job-1"
    assert [status.job_id for status in world.core.registry.statuses(world.now)] == ["job-1"]
    assert len(world.heard("x", "deploy")) == 1


def test_nothing_changes_when_a_request_is_refused(make_world: Any, graphs: Any) -> None:
    world = make_world()
    with pytest.raises(PeerLostError, match="no agent is attached"):
        world.submit(graphs.shuffle())
    assert world.core.registry.statuses(world.now) == []
    world.attach("x")
    world.submit(graphs.shuffle())
    with pytest.raises(InternalError, match="given twice"):
        world.submit(graphs.shuffle())
    for event in (JobCancelled("job-9", ""), JobReleased("job-9")):
        with pytest.raises(NotFoundError, match="no job 'job-9'"):
            world.do(event)


def test_release(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(graphs.shuffle())
    world.do(JobReleased("job-1"))  # cancels first
    world.report("x", 0, 0, pb.TASK_CANCELLED)
    assert (world.state(), world.heard("y", "release")) == ("running", [])
    world.report("y", 0, 1, pb.TASK_CANCELLED)
    assert world.state() == "released"
    assert [r.job_id for r in world.heard("y", "release")] == ["job-1"]
    assert list(world.heard("y", "locations")[-1].dropped_jobs) == ["job-1"]
    with pytest.raises(NotFoundError, match="was released"):
        world.core.locate(pb.LocateRequest(job_id="job-1"))
    world.do(JobReleased("job-1"))
    assert world.state() == "released"
    assert list(world.store.scan("tasks")) == []


def test_ended_jobs_are_released_after_a_while(make_world: Any, graphs: SimpleNamespace) -> None:
    world = make_world(retain_failed_s=3.0)
    world.attach("x", "y")
    world.submit(graphs.shuffle())
    world.report("x", 0, 0, pb.TASK_FAILED, error=ERROR)
    world.report("y", 0, 1, pb.TASK_CANCELLED)
    world.do(Tick(0.0), after=1.5)
    world.do(Tick(0.0), after=1.4)
    assert not world.heard("y", "release")
    world.do(Tick(0.0), after=0.1)
    assert world.heard("y", "release")
    assert world.state() == "failed"  # the reason is still known


def test_history_is_bounded(make_world: Any, graphs: SimpleNamespace) -> None:
    world = make_world(jobs_kept_max=2)
    world.attach("x")
    for number in range(4):
        world.submit(graphs.shuffle(), f"job-{number}", key=f"key-{number}")
        world.do(JobReleased(f"job-{number}"))
        for task in (0, 1):
            world.report("x", 0, task, pb.TASK_CANCELLED, job_id=f"job-{number}")
    assert [status.job_id for status in world.core.registry.statuses(world.now)] == [
        "job-2",
        "job-3",
    ]
    assert world.core.registry.job_of_key("key-0") is None
    assert [key for key, _ in world.store.scan("jobs")] == ["job-2", "job-3"]


def test_after_a_restart(world: Any, graphs: SimpleNamespace) -> None:
    world.submit(graphs.shuffle(), "job-1")
    world.run_first_stage()
    world.submit(graphs.shuffle(), "job-2")
    world.do(JobCancelled("job-2", "enough"))
    world.report("y", 0, 0, pb.TASK_CANCELLED, job_id="job-2")
    world.report("x", 0, 1, pb.TASK_CANCELLED, job_id="job-2")
    before, n_sent = world.core.registry.status("job-1", world.now), len(world.sent)
    world.start()
    assert world.core.epoch == 2
    assert world.core.registry.status("job-1", world.now) == before
    assert world.state("job-2") == "cancelled"
    assert [a.state for a in world.core.agents.all(world.now)] == ["starting", "starting"]
    assert len(world.sent) == n_sent  # nothing is done twice
    world.attach("x", "y")
    assert world.heard("x", "welcome")[-1].epoch == 2
    assert world.heard("x", "locations")[-1].version >> 32 == 2


def test_after_a_restart_what_runs_is_seen_to_run(world: Any, graphs: SimpleNamespace) -> None:
    """That a task has begun is not written down; the agent that is at it says so."""
    world.submit(graphs.shuffle())
    world.report("x", 0, 0, pb.TASK_RUNNING)
    assert world.core.registry.status("job-1", world.now).stages[0].running == 1
    world.start()
    assert world.core.registry.status("job-1", world.now).stages[0].running == 0
    key = pb.TaskKey(job_id="job-1", stage=0, task=0, epoch=1)
    held = pb.TaskReport(key=key, state=pb.TASK_RUNNING)
    hello = pb.Hello(agent_id="x", address="grpc+tcp://x", cpus=4, slots=4, tasks=[held])
    world.do(AgentAttached(9, hello))
    assert world.core.registry.status("job-1", world.now).stages[0].running == 1


def test_the_same_script_gives_the_same_effects(make_world: Any, graphs: Any) -> None:
    def run() -> list[bytes]:
        world = make_world()
        world.attach("y", "x", "z")
        world.submit(graphs.piped())
        world.finish("x", 0, 0)
        world.detach("z")
        world.do(Tick(5.0), after=10.0)
        return [s.message.SerializeToString(deterministic=True) for s in world.sent]

    assert run() == run()


def test_every_verb_of_datasets_has_a_handler(world: Any) -> None:
    verbs = pb.DatasetRequest.DESCRIPTOR.oneofs_by_name["kind"].fields
    for verb in verbs:
        request = pb.DatasetRequest()
        getattr(request, verb.name).SetInParent()
        try:
            world.do(DatasetAsked(request, "tx"))
        except FabricError as error:
            assert "a dataset request says" not in str(error), verb.name  # noqa: PT017
    with pytest.raises(NotFoundError, match="a dataset request says begin"):
        world.do(DatasetAsked(pb.DatasetRequest(), "tx"))
