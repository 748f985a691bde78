"""A stream in the core: what its checkpoints owe outlives its tasks, agents and coordinator."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.checkpoint.codec import encode_snapshot_ack
from fabric.checkpoint.manifest import FINAL, Seal, SinkHandle, SnapshotAck, TaskSnapshot
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.checkpoints.requests import OPEN_MAX, Then, Wanted
from fabric.coordinator.core.effects import JobChanged, StorageWork, Verify, WriteManifest
from fabric.coordinator.core.events import (
    CheckpointAsked,
    CheckpointVerified,
    JobCancelled,
    JobReplanned,
    JobRestarted,
    ManifestWritten,
    Tick,
)
from fabric.coordinator.core.jobs.streams import LAST_CHECKPOINT_S
from fabric.coordinator.planner.stages import RESULT, Stage, StageGraph
from fabric.errors import ConfigError, DataError
from fabric.event_time import END_OF_TIME
from fabric.io.readers import stream_schema
from fabric.plan.codec import encode
from fabric.plan.nodes import Plan, Sink, StreamScan
from fabric.plan.sources import GeneratorStream
from fabric.plan.targets import GateTarget

AGENTS = ("x", "y")


class Stream:
    """One stage of two tasks, source and sink at once, on two agents."""

    def __init__(self, world: Any, graphs: Any) -> None:
        self.world, self._edge = world, graphs.edge
        self.work: list[Any] = []
        world.submit(self.graph(2), plan=b"a plan", parallelism=2)
        self.say_all(pb.TASK_RUNNING)

    def graph(self, n_tasks: int) -> StageGraph:
        source = GeneratorStream(n_splits=2)
        scan = StreamScan(source, stream_schema(source), path="made")
        stage = Stage(
            stage=0, path="out", root=Sink(scan, GateTarget("g"), path="out"), kind="chain",
            n_tasks=n_tasks, splits=(), region=0, is_sink=True,
        )  # fmt: skip
        return StageGraph((stage,), (self._edge(0, 0, RESULT, n_tasks),))

    def rescale(self, n_tasks: int) -> None:
        graph = self.graph(n_tasks)
        fragments = tuple(encode(Plan(stage.root)) for stage in graph.stages)
        self.do(JobReplanned("job-1", n_tasks, graph, fragments))

    def leaves(self, agent: str, number: int) -> None:
        key = pb.TaskKey(job_id="job-1", stage=0, task=number, attempt=0, epoch=1)
        self.keep(self.world.say(agent, task=pb.TaskReport(key=key, state=pb.TASK_CANCELLED)))

    @property
    def tasks(self) -> list[tuple[int, int, str]]:
        """Number, attempt and agent of each task."""
        job = self.world.core.registry.live("job-1")
        return [(key[1], t.attempt, t.agent_id if t.given else "") for key, t in job.tasks.items()]

    def say_all(self, state: int, **fields: Any) -> None:
        for number, agent in enumerate(AGENTS):
            if agent in self.world.sessions:
                self.world.report(agent, 0, number, state, **fields)

    def tick(self, after: float) -> None:
        """Time passes; agents are heard of every second."""
        for _ in range(max(1, int(after))):
            for agent in self.world.sessions:
                self.world.say(agent, heartbeat=pb.Heartbeat(sequence=1))
            self.do(Tick(1000.0), min(after, 1.0))

    def do(self, event: Any, after: float = 0.0) -> None:
        self.keep(self.world.do(event, after))

    def keep(self, effects: list[Any]) -> None:
        self.work += [e.work for e in effects if isinstance(e, StorageWork)]

    def checkpoint(self, number: int) -> WriteManifest:
        """It is time for it, and all tasks acknowledge it; the manifest that is to be stored."""
        self.tick(10.5)
        return self.acknowledge(number)

    def acknowledge(self, number: int) -> WriteManifest:
        assert self.world.heard("x", "trigger")[-1].checkpoint == number
        for task, agent in enumerate(AGENTS):
            made = SinkHandle(number, b"h%d.%d" % (task, number))
            snapshot = TaskSnapshot("out", task, 0, range(1), (), (), (made,))
            ack = SnapshotAck(number, 0, task, 0, 1, (snapshot,))
            key = pb.TaskKey(job_id="job-1", stage=0, task=task, attempt=0, epoch=1)
            told = pb.Checkpointed(key=key, checkpoint=number, ack=encode_snapshot_ack(ack))
            self.keep(self.world.say(agent, checkpointed=told))
        (order,) = [work for work in self.work if isinstance(work, WriteManifest)]
        self.work.clear()
        return order

    def published(self, agent: str) -> None:
        published = pb.SinkPublish(checkpoint=1)
        report = pb.SinkReport(job_id="job-1", node_path="out", published=published)
        self.keep(self.world.say(agent, sink=report))

    def asked(self, agent: str) -> list[tuple[bool, list[bytes]]]:
        """What an agent was told to publish, and to remove."""
        return [
            (sink.HasField("publish"), list(sink.handles))
            for sink in self.world.heard(agent, "sink")
        ]


@pytest.fixture
def stream(world: Any, graphs: Any) -> Stream:
    return Stream(world, graphs)


OWED = (True, [b"h0.1", b"h1.1"])


def test_a_stream_is_rescaled_from_a_checkpoint_taken_for_that(stream: Stream) -> None:
    stream.rescale(1)
    stream.acknowledge(1)
    stream.do(ManifestWritten("job-1", 1, Seal(1, 1)))
    assert stream.world.heard("x", "cancel") == [], "its tasks go on until all of it is published"
    stream.published("x")
    stream.leaves("x", 0)
    stream.leaves("y", 1)
    assert stream.tasks == [(0, 2, "")]
    (order,) = [work for work in stream.work if isinstance(work, Verify)]
    assert order.checkpoint == 1


def test_a_stream_is_rescaled_without_a_last_checkpoint_that_fails(stream: Stream) -> None:
    stream.rescale(1)
    key = pb.TaskKey(job_id="job-1", stage=0, task=0, attempt=0, epoch=1)
    error = pb.ErrorDetail(kind="storage", message="the disk is full")
    declined = pb.Checkpointed(key=key, checkpoint=1, declined=error)
    stream.keep(stream.world.say("x", checkpointed=declined))
    stream.leaves("x", 0)
    stream.leaves("y", 1)
    assert stream.tasks == [(0, 2, "x")], "it begins anew"


def test_a_stream_that_ends_before_its_tasks_leave_is_not_rescaled(stream: Stream) -> None:
    stream.rescale(1)
    for number, agent in enumerate(AGENTS):
        snapshot = TaskSnapshot("out", number, 0, range(1), (), (), ())
        final = encode_snapshot_ack(SnapshotAck(FINAL, 0, number, 0, 1, (snapshot,)))
        key = pb.TaskKey(job_id="job-1", stage=0, task=number, attempt=0, epoch=1)
        report = pb.TaskReport(key=key, state=pb.TASK_FINISHED, ack=final)
        stream.keep(stream.world.say(agent, task=report))
    stream.tick(1.0)
    (order,) = [work for work in stream.work if isinstance(work, WriteManifest)]
    stream.do(ManifestWritten("job-1", order.manifest.checkpoint, Seal(1, 1)))
    assert stream.world.core.registry.live("job-1").rescaling == 0
    assert stream.asked("x") == [(True, [b"", b""])], "the last of its output is published"


def test_a_stream_is_rescaled_when_its_tasks_have_left(stream: Stream) -> None:
    stream.checkpoint(1)  # its manifest is being stored, and what it has not published
    stream.rescale(1)
    stream.tick(LAST_CHECKPOINT_S)
    assert [key.task for key in stream.world.heard("x", "cancel")[-1].keys] == [0]
    stream.leaves("x", 0)
    stream.do(ManifestWritten("job-1", 1, Seal(1, 1)))
    stream.published("x")
    assert stream.tasks == [(0, 1, ""), (1, 1, "")], "a task of the old stages is still there"
    with pytest.raises(ConfigError, match="is already being rescaled to parallelism 1"):
        stream.rescale(3)
    stream.leaves("y", 1)
    assert stream.tasks == [(0, 2, "")]
    (order,) = [work for work in stream.work if isinstance(work, Verify)]
    assert order.checkpoint == 1
    rows = dict(stream.world.store.scan("tasks"))
    assert list(rows) == ["job-1/000000.000000"], "the other one is no more"


def test_a_rescale_ends_with_its_job(stream: Stream) -> None:
    stream.rescale(1)
    stream.do(JobCancelled("job-1", "enough"))
    stream.say_all(pb.TASK_CANCELLED)
    for agent in AGENTS:
        stream.world.say(agent, sink=pb.SinkReport(job_id="job-1", abandoned=pb.SinkAbandon()))
    stream.tick(1.0)
    assert stream.world.state() == "cancelled"
    stream.do(JobRestarted("job-1"))
    assert [task[0] for task in stream.tasks] == [0, 1]
    assert all(agent for _, _, agent in stream.tasks), "it runs again, as it was"


def test_a_job_that_is_cancelled_publishes_what_is_complete(stream: Stream) -> None:
    world = stream.world
    stream.checkpoint(1)
    stream.do(JobCancelled("job-1", "enough"))
    stream.say_all(pb.TASK_CANCELLED)
    stream.tick(1.0)
    assert world.state() == "running", "the manifest is being stored"
    stream.do(ManifestWritten("job-1", 1, Seal(1, 1)))
    assert stream.asked("x") == [OWED]
    stream.tick(1.0)
    assert world.state() == "running", "it is not published"
    world.detach("x")
    del world.sessions["x"]
    assert stream.asked("y") == [OWED], "the agent that was asked is gone"
    stream.published("y")
    stream.tick(1.0)
    assert stream.asked("y")[1:] == [(False, [])], "the rest goes, after that"


def test_a_job_that_is_cancelled_does_not_wait_for_ever(stream: Stream) -> None:
    stream.checkpoint(1)
    stream.do(ManifestWritten("job-1", 1, Seal(1, 1)))
    stream.do(JobCancelled("job-1", "enough"))
    stream.say_all(pb.TASK_CANCELLED)
    stream.tick(stream.world.config.stop_s + 1)
    assert stream.world.state() == "cancelled"


def test_a_job_that_is_restarted_asks_again_for_what_was_not_published(stream: Stream) -> None:
    test_a_job_that_is_cancelled_does_not_wait_for_ever(stream)
    stream.published("x")  # too late
    n_asked = len(stream.asked("x"))
    stream.do(JobRestarted("job-1"))
    assert stream.asked("x")[n_asked:] == [OWED]
    stream.published("x")
    assert any(isinstance(work, Verify) for work in stream.work), "it goes on"


def ask(stream: Stream, then: Then, key: str = "a") -> None:
    stream.do(CheckpointAsked("job-1", Wanted(key=key, then=then)))


def test_a_rescale_that_can_ask_for_no_checkpoint_is_refused(stream: Stream) -> None:
    for number in range(OPEN_MAX):
        ask(stream, "go on", key=f"{number}")
    with pytest.raises(ConfigError, match=f"{OPEN_MAX} checkpoints were asked for"):
        stream.rescale(1)
    stream.tick(LAST_CHECKPOINT_S + 1)
    assert stream.world.core.registry.live("job-1").rescaling == 0
    assert stream.world.heard("x", "cancel") == [], "it goes on as it was"


def stopping(stream: Stream) -> None:
    """A stream whose checkpoint 1 is out, at which it stops."""
    ask(stream, "stop")
    stream.checkpoint(1)
    stream.do(ManifestWritten("job-1", 1, Seal(1, 1)))
    stream.published("x")
    assert stream.world.heard("x", "cancel")[-1].reason == "it was stopped at checkpoint 1"


def test_a_stopped_job_ends_well_but_not_by_itself(stream: Stream) -> None:
    stopping(stream)
    stream.do(JobCancelled("job-1", "it is too late for that"))
    stream.say_all(pb.TASK_CANCELLED)
    stream.tick(1.0)
    for agent in AGENTS:
        stream.world.say(agent, sink=pb.SinkReport(job_id="job-1", abandoned=pb.SinkAbandon()))
    stream.tick(1.0)
    assert stream.world.state() == "finished"
    status = stream.world.core.registry.status("job-1", stream.world.now)
    assert (status.stopped_at, status.HasField("error")) == (1, False)
    told = stream.world.core.registry.moved(stream.world.core.registry.live("job-1"))
    assert told == [JobChanged("job-1", pb.JOB_FINISHED, by_itself=False)]


def test_another_coordinator_goes_on_stopping(stream: Stream) -> None:
    world = stream.world
    stopping(stream)
    world.start()
    job = world.core.registry.live("job-1")
    assert (job.stopped_at, job.stopping.state, job.stopping.error) == (1, pb.JOB_FINISHED, None)
    ask(stream, "stop", "asked again")
    told = job.stream.checkpoints.taken("asked again")
    assert (told.state, told.checkpoint) == ("done", 1)
    with pytest.raises(ConfigError, match="is stopped at checkpoint 1"):
        ask(stream, "drain", "b")
    stream.tick(20.0)
    assert job.stream.checkpoints.newest == 1
    assert not world.heard("x", "trigger")[1:], "nothing more is begun"


def test_tasks_that_begin_while_it_is_drained_end_where_they_begin(stream: Stream) -> None:
    world = stream.world
    ask(stream, "drain")
    for agent in AGENTS:
        (order,) = world.heard(agent, "trigger")
        assert (order.drain, len(order.keys)) == (True, 1)
    assert not any(deploy.stream.drain for deploy in world.heard("x", "deploy"))
    world.report("x", 0, 0, pb.TASK_FAILED, error=pb.ErrorDetail(kind="ExternalError", message="!"))
    stream.say_all(pb.TASK_CANCELLED)
    stream.tick(10.0)
    assert world.heard("x", "deploy")[-1].stream.drain


@pytest.mark.parametrize("then", ["go on", "stop", "drain"])
def test_only_a_stream_that_runs_takes_checkpoints(stream: Stream, then: Then) -> None:
    stream.do(JobCancelled("job-1", "enough"))
    with pytest.raises(ConfigError, match="job job-1 is cancelled: a stream takes checkpoints"):
        ask(stream, then)


def test_a_restarted_coordinator_knows_its_checkpoints(stream: Stream) -> None:
    world = stream.world
    manifest = stream.checkpoint(1).manifest
    stream.do(ManifestWritten("job-1", 1, Seal(1, 1)))
    assert stream.asked("x") == [OWED]
    world.sessions.clear()
    world.start()
    restored = world.core.registry.live("job-1").stream
    assert restored is not None
    (status,) = restored.checkpoints.statuses(world.now)
    assert (status.checkpoint, status.state) == (1, "complete")
    world.attach("y")  # x is gone with its task: all begin again, once all that is owed is out
    for _ in range(7):
        stream.tick(1.0)
    assert OWED in stream.asked("y")
    assert not any(isinstance(work, Verify) for work in stream.work)
    stream.published("y")
    stream.tick(1.0)
    assert stream.work[-1] == Verify(1, Seal(1, 1))
    stream.do(CheckpointVerified("job-1", 1, (manifest, Seal(1, 1))))
    assert world.heard("y", "deploy")[-1].stream.checkpoint == 1


def test_a_job_that_finds_nothing_whole_says_so_again(stream: Stream) -> None:
    world, damage = stream.world, DataError("a file differs")
    stream.checkpoint(1)
    stream.do(ManifestWritten("job-1", 1, Seal(1, 1)))
    stream.published("x")
    world.sessions.clear()
    world.start()
    world.attach("y")  # x is gone with its task: all begin again
    for _ in range(7):
        stream.tick(1.0)
    assert stream.work[-1] == Verify(1, Seal(1, 1))
    stream.do(CheckpointVerified("job-1", 1, damage))
    assert world.state() == "failed"
    stream.do(JobRestarted("job-1"))
    stream.tick(1.0)
    status = world.core.registry.status("job-1", world.now)
    assert (status.state, status.run) == (pb.JOB_FAILED, 1), "it does not wait for what never comes"
    assert "no checkpoint of the job is whole" in status.error.message


def test_no_node_of_a_stream_is_restarted_alone(stream: Stream) -> None:
    stream.do(JobCancelled("job-1", "enough"))
    stream.say_all(pb.TASK_CANCELLED)
    stream.tick(stream.world.config.stop_s + 1)
    with pytest.raises(ConfigError, match=r"'out' of job job-1 is part of a stream, which goes on"):
        stream.do(JobRestarted("job-1", "out"))
    assert stream.world.state() == "cancelled"
    stream.do(JobRestarted("job-1"))
    assert stream.world.state() == "running"


def test_tasks_hear_how_far_the_slowest_split_of_the_others_is(stream: Stream) -> None:
    def says(agent: str, task: int, time_us: int, attempt: int = 0) -> None:
        key = pb.TaskKey(job_id="job-1", stage=0, task=task, attempt=attempt, epoch=1)
        said = pb.SlowestSplit(key=key, node_path="w", time_us=time_us)
        stream.keep(stream.world.say(agent, slowest=said))

    def heard(agent: str) -> list[int]:
        return [each.time_us for each in stream.world.heard(agent, "others")]

    says("x", 0, 100)
    says("y", 1, 900)
    says("x", 0, 200)
    assert (heard("x"), heard("y")) == ([END_OF_TIME, 900], [100])
    says("y", 1, 901, attempt=7)
    says("x", 1, 901)
    assert (heard("x"), heard("y")) == ([END_OF_TIME, 900], [100]), "of no task that runs there"
