"""The checkpoints of a job, step by step; any order of failures is in tests/sim."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.checkpoint.manifest import (
    Declined,
    SinkHandle,
    SnapshotAck,
    TaskSnapshot,
)
from fabric.config import CheckpointConfig
from fabric.coordinator.core.checkpoints.requests import Wanted
from fabric.coordinator.core.effects import (
    Fail,
    NotifyAborted,
    NotifyComplete,
    Persist,
    Publish,
    RemoveCheckpoints,
    RemoveJob,
    TriggerSources,
    WriteManifest,
)
from fabric.errors import (
    ConfigError,
    ExternalError,
    FencedError,
    InternalError,
    StorageError,
)

from .checkpoint_job import DAMAGED, NODE, OTHER, SEAL, SINK, SOURCE, Job, ack, started_job


@pytest.fixture
def job() -> Job:
    return started_job()


def test_a_checkpoint_from_the_trigger_to_the_end(job: Job) -> None:
    core = job.core
    assert core.due == 10.0
    assert core.tick(9.9) == []
    effects = core.tick(10.0)
    assert isinstance(effects[0], Persist), "a number is written down before anybody hears it"
    assert job.take(effects) == [TriggerSources(1, (SOURCE,))]
    assert core.due == 70.0
    manifest = job.all_ack(1, 12.0, handles=True)
    assert (manifest.job, manifest.checkpoint, manifest.nodes) == ("job", 1, (NODE,))
    assert manifest.wall_us == 1_000_010_000_000
    assert [(task.node, task.task) for task in manifest.tasks] == [
        ("scan", 0), ("sink", 0), ("sink", 1),
    ]  # fmt: skip
    assert core.newest == 0
    effects = core.written(1, SEAL, 13.0)
    assert isinstance(effects[0], Persist)
    assert job.take(effects) == [
        NotifyComplete(1),
        Publish(1, "sink", (b"h0.1", b"h1.1")),
        RemoveCheckpoints((1,), 1),
    ]
    assert (core.newest, core.settled) == (1, False)
    assert job.take(core.published(1, "sink", 14.0)) == []
    assert core.settled
    (status,) = core.statuses(20.0)
    assert (status.state, status.bytes, status.files, status.seconds) == ("published", 10, 2, 3)
    assert not job.refused


def test_the_next_is_not_completed_before_this_one_is_published(job: Job) -> None:
    job.take(job.core.tick(10.0))
    job.all_ack(1, 11.0, handles=True)
    job.take(job.core.written(1, SEAL, 11.0))
    assert job.take(job.core.tick(20.0)) == [TriggerSources(2, (SOURCE,))]
    for key in (SOURCE, SINK, OTHER):
        late = ack(key, 2, handles=True)
        assert job.take(job.core.ack(late, 21.0)) == []
    (written,) = job.take(job.core.published(1, "sink", 22.0))
    assert isinstance(written, WriteManifest)
    assert written.manifest.handles() == {"sink": (b"h0.2", b"h1.2")}


def test_one_that_waits_for_publishing_is_given_up_in_time(job: Job) -> None:
    job.take(job.core.tick(10.0))
    job.all_ack(1, 11.0, handles=True)
    job.take(job.core.written(1, SEAL, 11.0))
    job.take(job.core.tick(20.0))
    for key in (SOURCE, SINK, OTHER):
        job.take(job.core.ack(ack(key, 2), 21.0))
    assert NotifyAborted(2, "checkpoint 1 is still being published") in job.core.tick(80.0)


def test_handles_that_were_published_are_not_published_again(job: Job) -> None:
    """The task had not heard that checkpoint 1 was complete."""
    job.take(job.core.tick(10.0))
    job.all_ack(1, 11.0, handles=True)
    job.take(job.core.written(1, SEAL, 11.0))
    job.take(job.core.published(1, "sink", 11.0))
    job.take(job.core.tick(20.0))
    both = (SinkHandle(1, b"h0.1"), SinkHandle(2, b"h0.2"))
    snapshot = TaskSnapshot("sink", 0, 0, range(1), (), (), both)
    job.take(job.core.ack(SnapshotAck(2, *SINK, 0, 1, (snapshot,)), 21.0))
    job.take(job.core.ack(ack(SOURCE, 2), 21.0))
    (written,) = job.take(job.core.ack(ack(OTHER, 2), 21.0))
    assert isinstance(written, WriteManifest)
    assert written.manifest.handles() == {"sink": (b"h0.2",)}


def test_what_does_not_fit_is_refused_by_name(job: Job) -> None:
    core = job.core
    assert core.ack(ack(SOURCE, 1), 5.0) == []
    job.take(core.tick(10.0))
    core.ack(ack(SOURCE, 1), 11.0)
    for wrong in (
        ack(SOURCE, 1), ack(SINK, 2), ack(SINK, 1, attempt=1), ack(SINK, 1, epoch=0),
        SnapshotAck(1, 7, 7, 0, 1),
    ):  # fmt: skip
        assert core.ack(wrong, 11.0) == []
    assert core.declined(Declined(1, *SOURCE, 0, 1, "full"), 11.0) == []
    assert core.written(1, SEAL, 11.0) == []
    assert core.not_written(1, DAMAGED, 11.0) == []
    assert core.published(1, "sink", 11.0) == []
    assert core.not_published(1, "sink", DAMAGED, 11.0) == []
    assert core.restoration.not_verified(1, DAMAGED, 11.0) == []
    assert dict(job.refused) == {
        "checkpoint: it is over": 2, "checkpoint: duplicate": 2, "checkpoint: old attempt": 1,
        "checkpoint: old epoch": 1, "checkpoint: unknown task": 1,
        "checkpoint: manifest not awaited": 2, "checkpoint: publishing not awaited": 2,
        "checkpoint: not being verified": 1,
    }  # fmt: skip


def test_a_task_that_does_not_answer(job: Job) -> None:
    job.take(job.core.tick(10.0))
    job.take(job.core.ack(ack(SINK, 1), 11.0))
    assert job.core.tick(69.9) == []
    reason = "no answer in 60 s from 2 of 3 tasks: 0.0, 1.1"
    assert job.take(job.core.tick(70.0)) == [
        NotifyAborted(1, reason), RemoveCheckpoints((), 2), TriggerSources(2, (SOURCE,)),
    ]  # fmt: skip
    assert [s.reason for s in job.core.statuses(71.0)] == [reason, ""]
    job.all_ack(2, 72.0)


def test_a_full_folder_fails_a_checkpoint_and_not_the_job(job: Job) -> None:
    job.take(job.core.tick(10.0))
    full = Declined(1, *SINK, 0, 1, "the disk is full")
    reason = "task 1.0 declined it: the disk is full"
    assert job.take(job.core.declined(full, 11.0)) == [
        NotifyAborted(1, reason), RemoveCheckpoints((), 2),
    ]  # fmt: skip
    job.take(job.core.tick(20.0))
    job.all_ack(2, 21.0)
    effects = job.take(job.core.not_written(2, StorageError("the disk is full"), 22.0))
    assert effects == [NotifyAborted(2, "the disk is full"), RemoveCheckpoints((), 3)]
    job.complete(3, 30.0)
    assert job.core.newest == 3


def test_a_deposed_start_fails_and_removes_nothing(job: Job) -> None:
    """What lies there under its numbers is of the start that has the state now."""
    job.take(job.core.tick(10.0))
    job.all_ack(1, 11.0)
    fenced = FencedError("another start has the state")
    assert job.take(job.core.not_written(1, fenced, 12.0)) == [Fail(fenced)]
    assert not any(isinstance(each, RemoveCheckpoints) for each in job.core.stop(13.0))
    assert job.core.tick(1000.0) == []


def test_failures_in_a_row_that_a_job_bears() -> None:
    job = Job(failures_max=1)
    job.core.restore(0.0)
    job.start()

    def fails(checkpoint: int) -> bool:
        job.take(job.core.tick(10.0 * checkpoint))
        declined = Declined(checkpoint, *SINK, 0, 1, "full")
        effects = job.core.declined(declined, 10.0 * checkpoint)
        return any(isinstance(effect, Fail) for effect in effects)

    assert not fails(1)
    job.complete(2, 20.0)  # from here on they are counted anew
    assert not fails(3)
    assert fails(4)
    assert job.core.tick(1000.0) == [], "nothing is begun for a job that fails"


def test_a_sink_that_refuses_is_asked_again(job: Job) -> None:
    job.take(job.core.tick(10.0))
    job.all_ack(1, 11.0, handles=True)
    job.take(job.core.written(1, SEAL, 11.0))
    publish = Publish(1, "sink", (b"h0.1", b"h1.1"))
    assert job.core.outstanding() == [publish]
    job.core.not_published(1, "sink", ExternalError("away"), 12.0)
    assert job.core.due == 12.5
    assert job.core.tick(12.5) == [publish]
    job.core.not_published(1, "sink", ExternalError("away"), 13.0)
    assert job.core.tick(13.9) == []
    assert job.core.tick(14.0) == [publish]
    (fail,) = job.core.not_published(1, "sink", DAMAGED, 15.0)
    assert isinstance(fail, Fail)
    assert fail.error.where.node == "sink"


def test_only_so_many_are_kept() -> None:
    job = Job(retained=2)
    job.core.restore(0.0)
    job.start()
    for checkpoint in (1, 2, 3):
        job.take(job.core.tick(10.0 * checkpoint))
        job.all_ack(checkpoint, 10.0 * checkpoint)
        effects = job.take(job.core.written(checkpoint, SEAL, 10.0 * checkpoint))
    assert effects[-1] == RemoveCheckpoints((2, 3), 3)
    assert sorted(key for key in job.rows if "/checkpoint/" in key) == [
        f"job/checkpoint/{n:020}" for n in (2, 3)
    ]
    assert job.take(job.core.release()) == [RemoveJob()]
    assert job.rows == {}


def test_who_attaches_again_hears_what_holds(job: Job) -> None:
    assert job.core.remind() == []
    job.complete(1, 10.0)
    job.take(job.core.tick(20.0))
    assert job.core.remind() == [NotifyComplete(1), TriggerSources(2, (SOURCE,))]
    job.take(job.core.ack(ack(SOURCE, 2), 21.0))
    assert job.core.remind() == [NotifyComplete(1)]
    job.core.declined(Declined(2, *SINK, 0, 1, "full"), 22.0)
    aborted = NotifyAborted(2, "task 1.0 declined it: full")
    assert job.core.remind() == [NotifyComplete(1), aborted]


def test_pauses_between_checkpoints() -> None:
    job = Job(min_pause_s=4.0)
    job.core.restore(0.0)
    job.start()
    job.take(job.core.tick(10.0))
    job.all_ack(1, 18.0)
    job.take(job.core.written(1, SEAL, 18.0))
    assert job.core.due == 22.0


def test_misuse_is_told(job: Job) -> None:
    with pytest.raises(InternalError, match="has tasks at work"):
        job.core.restore(1.0)
    with pytest.raises(ConfigError, match="timeout_s must be positive"):
        CheckpointConfig(timeout_s=0)
    with pytest.raises(ConfigError, match="must not be negative"):
        CheckpointConfig(failures_max=-1)


def test_after_its_time_all_tasks_that_lack_are_told_once_to_skip_alignment() -> None:
    job = Job(unaligned_after_s=1)
    job.take(job.core.restore(0.0))
    job.start()
    assert job.take(job.core.tick(10.0)) == [TriggerSources(1, (SOURCE,))]
    assert job.core.due == 11.0
    assert job.take(job.core.ack(ack(SOURCE, 1), 10.5)) == []
    assert job.take(job.core.tick(11.0)) == [TriggerSources(1, (SINK, OTHER), unaligned=True)]
    assert job.core.due == 70.0
    assert job.take(job.core.tick(11.5)) == []
    assert job.take(job.core.ack(ack(SINK, 1), 12.0)) == []
    assert TriggerSources(1, (OTHER,), unaligned=True) in job.core.remind()
    assert [status.unaligned for status in job.core.statuses(12.0)] == [True]
    (written,) = job.take(job.core.ack(ack(OTHER, 1), 13.0))
    assert isinstance(written, WriteManifest)
    job.take(job.core.written(1, SEAL, 13.0))
    job.restart()
    assert [status.unaligned for status in job.core.statuses(13.0)] == [True]


def test_with_no_time_a_checkpoint_is_unaligned_from_its_beginning() -> None:
    job = Job(unaligned_after_s=0)
    job.take(job.core.restore(0.0))
    job.start()
    tasks = (SOURCE, SINK, OTHER)
    assert job.take(job.core.tick(10.0)) == [TriggerSources(1, tasks, unaligned=True)]
    assert job.core.due == 70.0


@pytest.mark.parametrize("wanted", [{"savepoint": "a"}, {"then": "stop"}])
def test_what_is_kept_or_the_last_is_aligned(wanted: dict[str, Any]) -> None:
    job = Job(unaligned_after_s=0)
    job.take(job.core.restore(0.0))
    job.start()
    asked = job.core.ask(Wanted(key="k", **wanted), 1.0)
    assert job.take(asked) == [TriggerSources(1, (SOURCE,))]
    assert job.core.due == 61.0


def test_one_that_hurries_is_unaligned_from_its_beginning() -> None:
    job = Job(unaligned_after_s=30)
    job.take(job.core.restore(0.0))
    job.start()
    asked = job.core.ask(Wanted(key="k", hurries=True), 1.0)
    assert job.take(asked) == [TriggerSources(1, (SOURCE, SINK, OTHER), unaligned=True)]


def test_a_checkpoint_that_only_has_to_be_written_stays_aligned() -> None:
    job = Job(unaligned_after_s=3)
    job.take(job.core.restore(0.0))
    job.start()
    job.take(job.core.tick(10.0))
    for key in (SOURCE, SINK, OTHER):
        job.take(job.core.ack(ack(key, 1), 11.0))
    assert job.take(job.core.tick(14.0)) == []
    assert [status.unaligned for status in job.core.statuses(14.0)] == [False]
