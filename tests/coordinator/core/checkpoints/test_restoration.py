"""Checkpoints after losses: of tasks, of coordinators, of files; and at the end of a job."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fabric.checkpoint.manifest import (
    FINAL,
    Manifest,
)
from fabric.coordinator.core.checkpoints.rows import Pointer, last_row, pointer_row
from fabric.coordinator.core.effects import (
    Abandon,
    Ended,
    Fail,
    Note,
    NotifyAborted,
    NotifyComplete,
    Publish,
    RemoveCheckpoints,
    Restore,
    TakeBack,
    TriggerSources,
    Verify,
    WriteManifest,
)
from fabric.errors import (
    ExternalError,
    FencedError,
    NotFoundError,
    StorageError,
)

from .checkpoint_job import DAMAGED, OTHER, SEAL, SINK, SOURCE, Job, ack, started_job


@pytest.fixture
def job() -> Job:
    return started_job()


def test_a_lost_task_ends_the_checkpoint(job: Job) -> None:
    job.take(job.core.tick(10.0))
    job.take(job.core.ack(ack(SINK, 1, handles=True), 11.0))
    assert job.take(job.core.lost("agent 1 was lost", 12.0)) == [
        NotifyAborted(1, "agent 1 was lost"),
        RemoveCheckpoints((), 2),
        Abandon("sink", (b"h0.1",)),
    ]
    assert job.core.tick(100.0) == []
    assert job.take(job.core.restore(13.0)) == [Restore(None)]
    assert job.start(14.0, attempt=1) == []
    assert job.core.ack(ack(OTHER, 1), 15.0) == []
    assert job.refused == {"checkpoint: old attempt": 1}
    assert job.take(job.core.tick(24.0)) == [TriggerSources(2, (SOURCE,))]


def test_a_manifest_that_is_being_written_is_waited_for(job: Job) -> None:
    job.take(job.core.tick(10.0))
    manifest = job.all_ack(1, 11.0, handles=True)
    assert job.core.lost("agent 1 was lost", 12.0) == []
    assert job.core.restore(12.0) == []
    assert job.core.tick(200.0) != [], "it is said that this takes long"
    assert job.take(job.core.written(1, SEAL, 210.0)) == [
        Publish(1, "sink", (b"h0.1", b"h1.1")), RemoveCheckpoints((1,), 1),
    ]  # fmt: skip
    assert job.take(job.core.published(1, "sink", 211.0)) == [Verify(1, SEAL)]
    assert job.take(job.core.restoration.verified(1, manifest, 212.0)) == [Restore(manifest)]


def test_a_manifest_that_could_not_be_written_after_a_loss(job: Job) -> None:
    job.take(job.core.tick(10.0))
    job.all_ack(1, 11.0, handles=True)
    job.core.lost("agent 1 was lost", 12.0)
    job.core.restore(12.0)
    assert job.take(job.core.not_written(1, StorageError("full"), 13.0)) == [
        RemoveCheckpoints((), 2), Abandon("sink", (b"h0.1", b"h1.1")), Restore(None),
    ]  # fmt: skip


def test_a_damaged_checkpoint_is_followed_by_the_one_before(job: Job) -> None:
    first = job.complete(1, 10.0)
    job.take(job.core.tick(20.0))
    job.all_ack(2, 21.0, handles=True)
    job.take(job.core.written(2, SEAL, 21.0))
    job.take(job.core.published(2, "sink", 21.0))
    job.core.lost("agent 1 was lost", 22.0)
    assert job.take(job.core.restore(22.0)) == [Verify(2, SEAL)]
    effects = job.core.restoration.not_verified(2, DAMAGED, 23.0)
    assert any(isinstance(e, Note) and "DAMAGED" in e.event for e in effects)
    assert job.take(effects) == [Verify(1, SEAL)]
    out = TakeBack(1, "sink", (b"h0.2", b"h1.2"))
    assert job.take(job.core.restoration.verified(1, first, 24.0)) == [out]
    assert job.take(job.core.restoration.taken_back(1, "sink", 24.0)) == [Restore(first)]
    assert [s.state for s in job.core.statuses(24.0)] == ["published", "damaged"]
    # the next number is a new one, and with it the damaged one goes
    job.start(25.0)
    job.complete(3, 35.0)
    assert [s.checkpoint for s in job.core.statuses(36.0)] == [1, 3]


def damaged_job(**config: Any) -> tuple[Job, Manifest]:
    """The output of checkpoint 2 is out, the checkpoint is damaged; 1 is whole."""
    job = Job(**config)
    job.take(job.core.restore(0.0))
    job.start()
    first = job.complete(1, 10.0)
    job.take(job.core.tick(20.0))
    job.all_ack(2, 21.0, handles=True)
    job.take(job.core.written(2, SEAL, 21.0))
    job.take(job.core.published(2, "sink", 21.0))
    job.core.lost("agent 1 was lost", 22.0)
    job.take(job.core.restore(22.0))
    job.take(job.core.restoration.not_verified(2, DAMAGED, 23.0))
    return job, first


OUT = TakeBack(1, "sink", (b"h0.2", b"h1.2"))


def test_what_is_out_is_taken_back_until_it_is() -> None:
    job, first = damaged_job()
    assert job.take(job.core.restoration.verified(1, first, 24.0)) == [OUT]
    assert job.core.due == math.inf, "an answer is awaited"
    assert job.core.outstanding() == [OUT], "an agent was lost, another one is asked"
    assert (
        job.take(job.core.restoration.not_taken_back(1, "sink", ExternalError("away"), 25.0)) == []
    )
    assert job.core.due == 25.5
    assert job.take(job.core.tick(25.4)) == []
    assert job.take(job.core.tick(25.5)) == [OUT]
    for odd in ((2, "sink"), (1, "other")):
        assert job.core.restoration.taken_back(*odd, 26.0) == []
    assert job.take(job.core.restoration.taken_back(1, "sink", 26.0)) == [Restore(first)]
    assert job.core.restoration.taken_back(1, "sink", 26.0) == [], "once"
    assert job.refused["checkpoint: taking back not awaited"] == 3


def test_a_coordinator_that_dies_meanwhile_takes_back_again() -> None:
    job, first = damaged_job()
    job.take(job.core.restoration.verified(1, first, 24.0))
    job.restart()
    assert job.take(job.core.restore(0.0))[-1] == Verify(1, SEAL)
    assert job.take(job.core.restoration.verified(1, first, 1.0)) == [OUT]
    assert job.take(job.core.restoration.taken_back(1, "sink", 1.0)) == [Restore(first)]
    # before another checkpoint is complete the same holds again
    job.start(2.0, attempt=1)
    job.core.lost("agent 2 was lost", 3.0)
    assert job.take(job.core.restore(3.0)) == [Verify(1, SEAL)]
    assert job.take(job.core.restoration.verified(1, first, 3.0)) == [OUT]


@pytest.mark.parametrize("seen_twice", [False, True])
def test_what_can_not_be_taken_back_ends_the_job_unless_it_may_be_seen_twice(
    *, seen_twice: bool
) -> None:
    job, first = damaged_job(seen_twice=seen_twice)
    job.take(job.core.restoration.verified(1, first, 24.0))
    effects = job.core.restoration.not_taken_back(
        1, "sink", NotFoundError("a.parquet is gone"), 25.0
    )
    if seen_twice:
        assert any(isinstance(e, Note) and "TWICE" in e.event for e in effects)
        assert job.take(effects) == [Restore(first)]
        return
    (fail,) = job.take(effects)
    assert isinstance(fail, Fail)
    assert "a.parquet is gone" in fail.error.message
    assert "seen_twice" in fail.error.message


def test_what_is_complete_is_not_removed_with_what_is_not(job: Job) -> None:
    """A task that did not hear of checkpoint 1 in time names its output again with checkpoint 2."""
    job.take(job.core.tick(10.0))
    job.all_ack(1, 11.0, handles=True)
    job.take(job.core.written(1, SEAL, 11.0))
    job.take(job.core.tick(20.0))
    job.take(job.core.ack(ack(SINK, 2, handles=True), 21.0))
    effects = job.take(job.core.lost("agent 1 was lost", 22.0))
    assert Abandon("sink", (b"h0.2",), (b"h0.1", b"h1.1")) in effects


def test_without_a_whole_checkpoint_the_job_fails(job: Job) -> None:
    job.complete(1, 10.0)
    job.core.lost("agent 1 was lost", 22.0)
    job.core.restore(22.0)
    missing = NotFoundError("job/1/MANIFEST is missing")
    (fail,) = job.take(job.core.restoration.not_verified(1, missing, 23.0))
    assert isinstance(fail, Fail)
    assert fail.error.message == (
        "no checkpoint of the job is whole, so it can't go on: "
        "checkpoint 1: job/1/MANIFEST is missing"
    )
    assert job.core.tick(100.0) == []
    job.restart()  # and it stays so
    assert isinstance(job.take(job.core.restore(0.0))[-1], Fail)


def test_a_deposed_start_restores_nothing(job: Job) -> None:
    job.complete(1, 10.0)
    job.core.lost("agent 2 was lost", 20.0)
    job.core.restore(20.0)
    fenced = FencedError("another start has the state")
    assert job.take(job.core.restoration.not_verified(1, fenced, 20.0)) == [Fail(fenced)]
    assert job.core.tick(100.0) == []


def test_a_storage_that_is_away_damages_nothing(job: Job) -> None:
    manifest = job.complete(1, 10.0)
    job.core.lost("agent 1 was lost", 20.0)
    job.core.restore(20.0)
    assert job.take(job.core.restoration.not_verified(1, StorageError("away"), 20.0)) == []
    assert job.core.due == 20.5
    assert job.core.tick(20.4) == []
    assert job.core.tick(20.5) == [Verify(1, SEAL)]
    assert job.take(job.core.restoration.verified(1, manifest, 21.0)) == [Restore(manifest)]
    job.core.restore(30.0)
    now, effects = 30.0, job.core.restoration.not_verified(1, StorageError("away"), 30.0)
    while not any(isinstance(effect, Fail) for effect in effects):
        now = job.core.due
        job.core.tick(now)
        effects = job.core.restoration.not_verified(1, StorageError("away"), now)
    assert 45 < now - 30 < 70


def test_a_coordinator_that_starts_again_goes_on(job: Job) -> None:
    job.complete(1, 10.0)
    job.take(job.core.tick(20.0))
    job.all_ack(2, 21.0, handles=True)
    job.take(job.core.written(2, SEAL, 21.0))  # written down, nobody was told
    job.take(job.core.tick(30.0))
    job.restart()
    assert job.start(0.0) == [
        NotifyComplete(2),
        NotifyAborted(3, "its coordinator is gone"),
        RemoveCheckpoints((1, 2), 4),
        Publish(2, "sink", (b"h0.2", b"h1.2")),
    ]
    job.take(job.core.published(2, "sink", 1.0))
    assert job.take(job.core.tick(10.0)) == [TriggerSources(4, (SOURCE,))]
    manifest = job.all_ack(4, 11.0)
    assert manifest.epoch == 2


def test_a_coordinator_that_starts_again_without_tasks(job: Job) -> None:
    job.take(job.core.tick(10.0))
    manifest = job.all_ack(1, 11.0, handles=True)
    job.take(job.core.written(1, SEAL, 11.0))
    job.restart()
    assert job.take(job.core.restore(0.0)) == [
        RemoveCheckpoints((1,), 2), Publish(1, "sink", (b"h0.1", b"h1.1")),
    ]  # fmt: skip
    assert job.take(job.core.published(1, "sink", 1.0)) == [Verify(1, SEAL)]
    assert job.take(job.core.restoration.verified(1, manifest, 1.0)) == [Restore(manifest)]


def test_tasks_that_end_stand_for_all_later_checkpoints(job: Job) -> None:
    job.take(job.core.tick(10.0))
    assert job.take(job.core.finished(ack(SOURCE, FINAL), 11.0)) == []
    job.take(job.core.ack(ack(SINK, 1, handles=True), 11.0))
    (first,) = job.take(job.core.ack(ack(OTHER, 1, handles=True), 11.0))
    assert isinstance(first, WriteManifest)
    job.take(job.core.written(1, SEAL, 12.0))
    job.take(job.core.published(1, "sink", 12.0))
    assert job.core.tick(20.0) == [], "no source is left to be triggered"
    job.restart()
    job.start(0.0)
    last = ack(SINK, FINAL, handles=True, taken=1)
    assert job.take(job.core.ack(last, 21.0)) == []
    assert job.core.finished(last, 21.0) == []
    (made,) = job.take(job.core.finished(ack(OTHER, FINAL, taken=1), 22.0))
    assert isinstance(made, WriteManifest)
    assert made.manifest.positions("scan") == {"s": b"9"}
    number = made.manifest.checkpoint
    published = Publish(number, "sink", (b"h0.%d" % FINAL,))
    assert published in job.take(job.core.written(number, SEAL, 23.0))
    assert job.take(job.core.published(number, "sink", 24.0)) == [Ended(number)]
    assert job.core.tick(1000.0) == []
    assert job.refused == {"checkpoint: duplicate end": 1}


def test_a_last_word_does_not_stand_for_a_snapshot_that_was_taken(job: Job) -> None:
    """The state before its end belongs to checkpoint 1, and is still being stored."""
    job.take(job.core.tick(10.0))
    job.take(job.core.finished(ack(SOURCE, FINAL, taken=1), 11.0))
    job.take(job.core.ack(ack(SINK, 1), 11.0))
    assert job.take(job.core.ack(ack(OTHER, 1), 11.0)) == []
    (made,) = job.take(job.core.ack(ack(SOURCE, 1), 12.0))
    assert isinstance(made, WriteManifest)


def test_the_last_checkpoint_is_tried_again(job: Job) -> None:
    job.take(job.core.finished(ack(SOURCE, FINAL), 1.0))
    job.take(job.core.finished(ack(SINK, FINAL), 1.0))
    (made,) = job.take(job.core.finished(ack(OTHER, FINAL, handles=True), 1.0))
    assert isinstance(made, WriteManifest)
    effects = job.take(job.core.not_written(1, StorageError("full"), 2.0))
    assert effects == [NotifyAborted(1, "full"), RemoveCheckpoints((), 2)]
    (made,) = job.take(job.core.tick(job.core.due))
    assert isinstance(made, WriteManifest)
    job.take(job.core.written(2, SEAL, 20.0))
    assert job.take(job.core.published(2, "sink", 21.0)) == [Ended(2)]


def test_a_job_that_stops_publishes_what_is_complete(job: Job) -> None:
    job.take(job.core.tick(10.0))
    job.all_ack(1, 11.0, handles=True)
    assert job.core.stop(11.0) == []
    assert not job.core.settled
    effects = job.take(job.core.written(1, SEAL, 12.0))
    assert Publish(1, "sink", (b"h0.1", b"h1.1")) in effects
    assert job.take(job.core.published(1, "sink", 13.0)) == []
    assert job.core.settled
    assert job.core.tick(100.0) == []


# ---- checkpoints that a start has adopted, because its program has changed


def adopted_job() -> tuple[Job, Manifest]:
    """Checkpoint 1 is done, 2 still owes what the earlier program prepared, 3 is adopted of it."""
    made = Job()
    manifest = Manifest(job="job", checkpoint=3, epoch=0, run=0, wall_us=0, tasks=())
    owed = Pointer(2, SEAL, "complete", (("renamed", (b"h0.2",)),))
    pointers = (Pointer(1, SEAL, "published"), owed, Pointer.of(manifest, SEAL, 0.0))
    writes = [last_row("job", 3), *(pointer_row("job", pointer) for pointer in pointers)]
    made.core.restored([(write.key, write.value or b"") for write in writes])
    made.rows = {write.key: write.value or b"" for write in writes}
    return made, manifest


def test_what_is_owed_before_a_start_that_adopts_is_published_first() -> None:
    job, manifest = adopted_job()
    assert job.take(job.core.restore(0.0)) == [
        RemoveCheckpoints((1, 2, 3), 4), Publish(2, "renamed", (b"h0.2",)),
    ]  # fmt: skip
    assert not job.core.settled
    assert job.take(job.core.published(2, "renamed", 1.0)) == [Verify(3, SEAL)]
    assert job.take(job.core.restoration.verified(3, manifest, 2.0)) == [Restore(manifest)]
    job.start()
    assert job.complete(4, 10.0).checkpoint == 4


def test_a_coordinator_that_starts_again_still_owes_it() -> None:
    job, _ = adopted_job()
    job.restart()
    assert Publish(2, "renamed", (b"h0.2",)) in job.take(job.core.restore(0.0))
    job.take(job.core.published(2, "renamed", 1.0))
    job.restart()
    assert job.take(job.core.restore(0.0)) == [
        RemoveCheckpoints((1, 2, 3), 4), Verify(3, SEAL),
    ]  # fmt: skip


def test_nothing_before_an_adopted_checkpoint_is_restored() -> None:
    """Its nodes are those of another program: their state would be lost without a word."""
    job, _ = adopted_job()
    job.take(job.core.restore(0.0))
    job.take(job.core.published(2, "renamed", 1.0))
    (fail,) = job.take(job.core.restoration.not_verified(3, DAMAGED, 2.0))
    assert isinstance(fail, Fail)
    assert fail.error.message.endswith("so it can't go on: checkpoint 3: job/2/state is damaged")
