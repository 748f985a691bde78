from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.agent.attempts import TaskSpec
from fabric.agent.core import AgentCore
from fabric.agent.events import (
    AbandonSinks,
    Cancel,
    CopyReplica,
    DropJob,
    DropOutput,
    DropPipes,
    Effect,
    Fetched,
    Incoming,
    KeepPartitions,
    LeaseOver,
    OrderTask,
    Outgoing,
    Relocate,
    RunSink,
    Send,
    Start,
    TaskEnd,
)
from fabric.control import control_pb2 as pb
from fabric.ids import TaskId

SMALL = st.integers(0, 2)


def deploy(
    job: str = "j", stage: int = 0, tasks: Iterable[int] = (0,), *, attempt: int = 0,
    epoch: int = 1, mode: pb.EdgeMode = pb.MODE_MATERIALISED,
) -> Incoming:  # fmt: skip
    return Incoming(
        pb.CoordinatorMessage(
            epoch=epoch,
            deploy=pb.Deploy(
                job_id=job, stage=stage, epoch=epoch,
                tasks=[pb.TaskAssignment(task=t, attempt=attempt) for t in tasks],
                outputs=[pb.OutputEdge(edge=1, mode=mode)],
            )
        )
    )  # fmt: skip


def cancel(job: str = "j") -> Incoming:
    order = pb.CancelTasks(job_id=job, reason="why not")
    return Incoming(pb.CoordinatorMessage(cancel=order, epoch=1))


def release(job: str = "j") -> Incoming:
    return Incoming(pb.CoordinatorMessage(release=pb.ReleaseJob(job_id=job), epoch=1))


def ended(spec: TaskSpec, state: pb.TaskState = pb.TASK_FINISHED, handle: bytes = b"") -> TaskEnd:
    return TaskEnd(pb.TaskReport(key=spec.key, state=state, sink_handle=handle))


def started(effects: list[Effect]) -> list[TaskSpec]:
    return [effect.spec for effect in effects if isinstance(effect, Start)]


def of(effects: list[Effect], kind: type) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, kind)]


def test_tasks_start_in_order_as_slots_get_free() -> None:
    core = AgentCore(slots=2)
    first = core.handle(deploy(tasks=(0, 1, 2)))
    assert [str(spec.id) for spec in started(first)] == ["j/0.0#0", "j/0.1#0"]
    states = [e.message.task.state for e in first if isinstance(e, Send)]
    assert states == [pb.TASK_RUNNING, pb.TASK_RUNNING]
    assert core.running == 2
    second = core.handle(ended(started(first)[1]))
    assert isinstance(second[0], Send)
    assert second[0].message.task.state == pb.TASK_FINISHED
    assert [spec.id.task for spec in started(second)] == [2]


def test_pipelined_tasks_all_run_at_once() -> None:
    core = AgentCore(slots=1)
    assert len(started(core.handle(deploy(tasks=range(5), mode=pb.MODE_PIPELINED)))) == 5
    assert len(started(core.handle(deploy(job="other", tasks=(0, 1))))) == 1


def test_duplicates_and_older_ones_are_refused_and_counted() -> None:
    core = AgentCore(slots=4)
    core.handle(deploy(attempt=1, epoch=2))
    assert core.handle(deploy(attempt=1, epoch=2)) == []
    assert core.handle(deploy(attempt=0, epoch=2)) == []
    assert core.handle(deploy(attempt=5, epoch=1)) == []
    assert core.refused == {"duplicate": 1, "older attempt": 1, "older epoch": 1}


def test_replicas_are_ordered_by_the_newest_coordinator_only() -> None:
    core = AgentCore(slots=1)
    replicate, keep = pb.Replicate(number=1, dataset="d"), pb.KeepPartitions(dataset="d")
    said = [
        Incoming(pb.CoordinatorMessage(epoch=2, replicate=replicate)),
        Incoming(pb.CoordinatorMessage(epoch=2, keep=keep)),
        Incoming(pb.CoordinatorMessage(epoch=1, replicate=replicate)),
        Incoming(pb.CoordinatorMessage(epoch=1, keep=keep)),
    ]
    effects = [effect for event in said for effect in core.handle(event)]
    assert effects == [CopyReplica(replicate), KeepPartitions(keep)]
    assert core.refused == {"older epoch": 2}


def test_the_report_of_an_ended_task_is_said_again_when_it_is_asked_for_again() -> None:
    core = AgentCore(slots=4)
    (spec,) = started(core.handle(deploy()))
    core.handle(ended(spec))
    (again,) = core.handle(deploy())
    assert isinstance(again, Send)
    assert again.message.task.state == pb.TASK_FINISHED


def test_a_newer_attempt_stops_the_older_one() -> None:
    core = AgentCore(slots=4)
    (old,) = started(core.handle(deploy()))
    effects = core.handle(deploy(attempt=1))
    assert of(effects, Cancel) == [Cancel(old.id, "a newer attempt of the task was started")]
    assert [spec.id.attempt for spec in started(effects)] == [1]
    late = core.handle(ended(old, handle=b"h"))  # its output is not wanted, nor its report
    assert late == [DropOutput(old.id, (1,)), AbandonSinks("j", (b"h",), attempts=True)]


def test_cancel_stops_running_reports_waiting_and_refuses_later_ones() -> None:
    core = AgentCore(slots=1)
    (spec,) = started(core.handle(deploy(tasks=(0, 1))))
    effects = core.handle(cancel())
    assert effects[0] == Cancel(TaskId("j", 0, 0), "why not")
    (waiting,) = of(effects, Send)
    assert isinstance(waiting, Send)
    assert waiting.message.task.state == pb.TASK_CANCELLED
    assert waiting.message.task.key.task == 1
    assert core.handle(cancel()) == []
    assert core.handle(deploy(stage=1)) == []
    assert core.refused["cancelled"] == 1
    after = core.handle(ended(spec, pb.TASK_CANCELLED))
    assert started(after) == []


def test_prepared_output_of_a_cancelled_job_is_abandoned() -> None:
    core = AgentCore(slots=2)
    one, two = started(core.handle(deploy(tasks=(0, 1))))
    core.handle(ended(one, handle=b"1"))
    assert AbandonSinks("j", (b"1",)) in core.handle(cancel())
    assert AbandonSinks("j", (b"2",)) in core.handle(ended(two, handle=b"2"))


def test_published_output_is_not_abandoned() -> None:
    core = AgentCore(slots=2)
    (spec,) = started(core.handle(deploy()))
    core.handle(ended(spec, handle=b"1"))
    command = pb.SinkCommand(job_id="j", stage=0, publish=pb.SinkPublish(), handles=[b"1"])
    said = Incoming(pb.CoordinatorMessage(sink=command, epoch=1))
    assert core.handle(said) == [RunSink(command)]
    assert of(core.handle(cancel()), AbandonSinks) == []
    report = pb.SinkReport(job_id="j", stage=0)
    assert core.handle(Outgoing(pb.AgentMessage(sink=report))) == [
        Send(pb.AgentMessage(sink=report))
    ]


def test_release_drops_when_the_last_thread_is_gone() -> None:
    core = AgentCore(slots=2)
    one, two = started(core.handle(deploy(tasks=(0, 1))))
    assert of(core.handle(release()), DropJob) == []
    assert of(core.handle(ended(one, pb.TASK_CANCELLED)), DropJob) == []
    assert of(core.handle(ended(two, pb.TASK_CANCELLED)), DropJob) == [DropJob("j")]
    assert core.handle(deploy()) == []
    assert core.refused["released"] == 1
    assert core.handle(release("unknown")) == [DropJob("unknown")]


def test_an_agent_whose_lease_is_over_stops_its_tasks_until_it_is_heard() -> None:
    core = AgentCore(slots=1)
    (done,) = started(core.handle(deploy("done")))
    core.handle(ended(done, handle=b"kept"))
    busy, *_ = started(core.handle(deploy("busy", tasks=(0, 1))))
    effects = core.handle(LeaseOver("silence"))
    assert of(effects, Cancel) == [Cancel(busy.id, "silence")]
    assert of(effects, AbandonSinks) == []  # another attempt may not have been made
    (waiting,) = of(effects, Send)
    assert isinstance(waiting, Send)
    assert waiting.message.task.state == pb.TASK_CANCELLED
    core.handle(ended(busy, pb.TASK_CANCELLED))
    assert started(core.handle(deploy("busy", attempt=1, epoch=2))) == []
    heard = Incoming(pb.CoordinatorMessage(heard=pb.Heard(sequence=1), epoch=2))
    assert len(started(core.handle(heard))) == 1


def test_output_is_fetched_once_however_often_it_is_asked_for() -> None:
    core = AgentCore(slots=1)
    adopt = pb.Adopt(job_id="j", stage=0, task=0, number=1, outputs=[pb.OutputEdge(edge=1)])
    (fetch,) = core.handle(Incoming(pb.CoordinatorMessage(adopt=adopt, epoch=1)))
    again = pb.Adopt(job_id="j", stage=0, task=0, number=2, outputs=[pb.OutputEdge(edge=1)])
    assert core.handle(Incoming(pb.CoordinatorMessage(adopt=again, epoch=1))) == []
    answers = core.handle(Fetched(fetch.adopt))
    assert [answer.message.adopted.number for answer in answers] == [1, 2]


def test_stock_is_taken_of_what_runs_and_what_has_ended() -> None:
    core = AgentCore(slots=1)
    (first,) = started(core.handle(deploy(tasks=(0, 1))))
    states = [(r.key.task, r.state) for r in core.inventory()]
    assert states == [(0, pb.TASK_RUNNING), (1, pb.TASK_RUNNING)]
    core.handle(ended(first))  # after the hello, before the welcome: nobody hears its report
    welcome = Incoming(pb.CoordinatorMessage(welcome=pb.Welcome(epoch=2), epoch=2))
    (again,) = core.handle(welcome)
    assert isinstance(again, Send)
    assert again.message.task.key.task == 0
    assert [(r.key.task, r.state) for r in core.inventory()] == [
        (0, pb.TASK_FINISHED), (1, pb.TASK_RUNNING),
    ]  # fmt: skip
    assert core.handle(welcome) == []


def test_one_attempt_is_cancelled_or_forgotten_with_its_output() -> None:
    core = AgentCore(slots=2)
    one, two = started(core.handle(deploy(tasks=(0, 1))))
    core.handle(ended(one))
    keys = [one.key, two.key]
    order = pb.CancelTasks(job_id="j", reason="moved", keys=keys)
    effects = core.handle(Incoming(pb.CoordinatorMessage(cancel=order, epoch=1)))
    assert effects == [DropOutput(one.id, (1,)), Cancel(two.id, "moved")]
    assert [r.key.task for r in core.inventory()] == [1]
    assert len(started(core.handle(deploy(tasks=(0,), attempt=1)))) == 1  # the job goes on


@pytest.mark.parametrize("moved", [False, True])
def test_a_moved_attempt_leaves_what_its_sink_prepared(moved: bool) -> None:
    core = AgentCore(slots=1)
    (spec,) = started(core.handle(deploy()))
    core.handle(ended(spec, handle=b"h"))
    order = pb.CancelTasks(job_id="j", reason="elsewhere", keys=[spec.key], moved=moved)
    effects = core.handle(Incoming(pb.CoordinatorMessage(cancel=order, epoch=1)))
    abandoned = [AbandonSinks("j", (b"h",), attempts=True)]
    assert effects == [DropOutput(spec.id, (1,)), *([] if moved else abandoned)]


def test_a_restarted_job_is_taken_up_again() -> None:
    core = AgentCore(slots=2)
    core.handle(cancel("j"))
    (spec,) = started(core.handle(deploy()))
    core.handle(cancel())
    core.handle(ended(spec, pb.TASK_CANCELLED))
    again = deploy(attempt=1)
    again.message.deploy.run = 1
    assert len(started(core.handle(again))) == 1
    assert core.handle(cancel()) == []  # of the run before
    assert core.refused == {"older run": 1}


def test_a_restarted_job_finds_no_rows_of_the_run_before_in_its_pipes() -> None:
    """Who finished last keeps the pipes, for others might still read them; nobody does."""
    core = AgentCore(slots=2)
    first, last = started(core.handle(deploy(tasks=(0, 1), mode=pb.MODE_PIPELINED)))
    core.handle(ended(first, pb.TASK_FAILED))
    assert DropPipes("j") not in core.handle(ended(last))
    core.handle(cancel())
    again = deploy(tasks=(0, 1), attempt=1, mode=pb.MODE_PIPELINED)
    again.message.deploy.run = 1
    effects = core.handle(again)
    assert len(started(effects)) == 2
    assert effects.index(DropPipes("j")) < min(
        n for n, effect in enumerate(effects) if isinstance(effect, Start)
    )


def test_locations_pass_through_and_unknown_messages_are_counted() -> None:
    core = AgentCore(slots=1)
    locations = pb.Locations(version=3)
    said = Incoming(pb.CoordinatorMessage(locations=locations))
    assert core.handle(said) == [Relocate(locations)]
    assert core.handle(Incoming(pb.CoordinatorMessage())) == []
    assert core.refused["unknown message"] == 1


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("dcreLx"), SMALL, SMALL), max_size=40))
def test_whatever_comes_slots_are_kept_and_every_start_ends_once(
    steps: list[tuple[str, int, int]],
) -> None:
    """Random orders: no more threads than slots, no task started twice, all can be dropped."""
    core, live, seen = AgentCore(slots=2), {}, set()
    for kind, job, number in steps:
        name = f"j{job}"
        match kind:
            case "d":
                effects = core.handle(deploy(name, tasks=range(number + 1), attempt=number))
            case "c":
                effects = core.handle(cancel(name))
            case "r":
                effects = core.handle(release(name))
            case "L":
                effects = core.handle(LeaseOver("silence"))
            case _:
                spec = next(iter(live.values()), None)
                effects = core.handle(ended(live.pop(spec.id))) if spec else []
        for spec in started(effects):
            assert spec.id not in seen
            seen.add(spec.id)
            live[spec.id] = spec
        assert len(live) == core.running <= 2
    for spec in list(live.values()):
        more = core.handle(ended(spec))
        while fresh := started(more):
            more = [e for s in fresh for e in core.handle(ended(s))]
    assert core.running == 0


def stream(tasks: Iterable[int] = (0, 1), *, attempt: int = 0, turn: int = 1) -> Incoming:
    said = deploy(tasks=tasks, attempt=attempt)
    said.message.deploy.stream.CopyFrom(pb.StreamDeploy(folder="state", turn=turn))
    return said


def trigger(*keys: tuple[int, int], checkpoint: int = 7) -> Incoming:
    """(task, attempt) of those that read sources."""
    named = [pb.TaskKey(job_id="j", task=task, attempt=attempt) for task, attempt in keys]
    order = pb.TriggerCheckpoint(job_id="j", checkpoint=checkpoint, keys=named)
    return Incoming(pb.CoordinatorMessage(trigger=order, epoch=1))


def over(turn: int = 1) -> Incoming:
    order = pb.CheckpointEnded(job_id="j", checkpoint=7, complete=True, turn=turn)
    return Incoming(pb.CoordinatorMessage(ended=order, epoch=1))


def test_tasks_of_a_stream_start_together_and_hear_of_checkpoints() -> None:
    core = AgentCore(slots=1)
    first, second = started(core.handle(stream()))
    said = trigger((0, 0))
    assert core.handle(said) == [OrderTask(first.id, said.message.trigger)]
    found, ended_at = core.handle(over()), over().message.ended
    assert found == [OrderTask(spec.id, ended_at) for spec in (first, second)]
    core.handle(ended(first))
    assert core.handle(over()) == [OrderTask(second.id, ended_at)]


def test_what_is_for_an_older_attempt_of_a_stream_is_refused() -> None:
    core = AgentCore(slots=1)
    (old,) = started(core.handle(stream([0])))
    core.handle(stream([0], attempt=1, turn=2))
    assert core.handle(trigger((0, 0), (0, 2), (5, 0))) == []
    assert core.refused["checkpoint"] == 3
    assert core.handle(over(turn=1)) == []
    assert old.id.attempt == 0
    said = trigger((0, 1))
    assert core.handle(said) == [OrderTask(TaskId("j", 0, 0, 1), said.message.trigger)]


@pytest.mark.parametrize("message", [
    pb.AgentMessage(replicated=pb.Replicated(number=1)),
    pb.AgentMessage(checkpointed=pb.Checkpointed(checkpoint=3, ack=b"a")),
    pb.AgentMessage(task=pb.TaskReport(state=pb.TASK_RUNNING, rows_in=2, watermark_us=1)),
    pb.AgentMessage(slowest=pb.SlowestSplit(node_path="w", time_us=5)),
])  # fmt: skip
def test_what_a_thread_of_the_agent_says_is_told(message: pb.AgentMessage) -> None:
    assert AgentCore(1).handle(Outgoing(message)) == [Send(message)]


def test_how_far_splits_of_others_are_goes_to_the_task_that_asked() -> None:
    core = AgentCore(slots=1)
    (task,) = started(core.handle(stream([0])))
    said = pb.SlowestSplit(key=task.key, node_path="w", time_us=5)
    answer = pb.CoordinatorMessage(others=said, epoch=1)
    assert core.handle(Incoming(answer)) == [OrderTask(task.id, said)]
    answer.others.key.attempt = 3
    assert core.handle(Incoming(answer)) == []
    assert core.refused["slowest split"] == 1
