"""Checkpoints that somebody asks for; any order of failures is in tests/sim."""

from __future__ import annotations

import pytest

from fabric.checkpoint.manifest import FINAL, Declined, Seal
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.checkpoints.requests import OPEN_MAX, PAST_MAX, Then, Wanted
from fabric.coordinator.core.effects import (
    CheckpointEffect,
    DrainSources,
    Ended,
    ExportSavepoint,
    RemoveCheckpoints,
    Restore,
    Stopped,
    TriggerSources,
    WriteManifest,
)
from fabric.errors import ConfigError, StorageError

from .checkpoint_job import OTHER, SEAL, SINK, SOURCE, Job, ack, started_job

KEPT = pb.SavepointStatus(name="monday", checkpoint=1)


@pytest.fixture
def job() -> Job:
    return started_job()


def ask(
    job: Job, now: float, key: str = "a", savepoint: str = "", then: Then = "go on"
) -> list[CheckpointEffect]:
    return job.take(job.core.ask(Wanted(key=key, savepoint=savepoint, then=then), now))


def export(checkpoint: int, name: str = "monday", seal: Seal = SEAL) -> ExportSavepoint:
    return ExportSavepoint(name=name, checkpoint=checkpoint, seal=seal)


def state(job: Job, key: str = "a") -> tuple[str, int]:
    told = job.core.taken(key)
    return told.state, told.checkpoint


def written(job: Job, checkpoint: int, now: float) -> list[CheckpointEffect]:
    return job.take(job.core.written(checkpoint, SEAL, now))


def test_a_savepoint_is_a_checkpoint_that_begins_at_once_and_is_exported_when_it_is_out(
    job: Job,
) -> None:
    assert ask(job, 1.0, savepoint="monday") == [TriggerSources(1, (SOURCE,))]
    assert ask(job, 1.0, savepoint="monday") == [], "the same key again changes nothing"
    job.all_ack(1, 2.0, handles=True)
    assert export(1) not in written(job, 1, 3.0), "it is not out yet"
    assert job.take(job.core.published(1, "sink", 4.0)) == [export(1)]
    assert state(job) == ("under way", 1)
    assert not job.core.settled, "the end of the job waits for it"
    assert job.take(job.core.exported(1, "monday", KEPT, 5.0)) == []
    assert state(job) == ("done", 1)
    assert job.core.taken("a").savepoint == KEPT
    assert job.core.settled
    assert job.take(job.core.tick(11.0)) == [TriggerSources(2, (SOURCE,))], "and it goes on"


def test_one_that_is_under_way_does_not_count(job: Job) -> None:
    job.take(job.core.tick(10.0))
    assert ask(job, 10.5, savepoint="monday") == []
    job.all_ack(1, 11.0)
    written(job, 1, 11.0)
    assert state(job) == ("under way", 0)
    assert job.take(job.core.tick(11.0)) == [TriggerSources(2, (SOURCE,))], "without a pause"
    job.all_ack(2, 12.0)
    assert export(2) in written(job, 2, 12.0)


@pytest.mark.parametrize("how", ["declined", "late", "not written"])
def test_a_checkpoint_that_fails_fails_the_request_and_the_job_goes_on(job: Job, how: str) -> None:
    ask(job, 1.0, savepoint="monday", then="stop")
    if how == "declined":
        job.core.declined(Declined(1, *SINK, 0, 1, "disk full"), 2.0)
    elif how == "late":
        job.core.tick(61.0)
    else:
        job.all_ack(1, 2.0)
        job.core.not_written(1, StorageError("disk full"), 3.0)
    told = job.core.taken("a")
    assert told.state == "failed"
    assert told.error.message.startswith("checkpoint 1 was not completed: ")
    job.take(job.core.tick(75.0))
    under_way = [s.checkpoint for s in job.core.statuses(75.0) if s.state == "under way"]
    assert under_way == [2], "the job goes on"


def test_a_checkpoint_whose_run_is_over_is_asked_for_again(job: Job) -> None:
    ask(job, 1.0, then="stop")
    job.take(job.core.lost("an agent was lost", 2.0))
    assert state(job) == ("under way", 0)
    assert job.take(job.core.restore(3.0)) == [Restore(None)]
    job.start(4.0)
    assert job.take(job.core.tick(4.0)) == [TriggerSources(2, (SOURCE,))]
    job.all_ack(2, 5.0)
    assert Stopped(2) in written(job, 2, 5.0)
    assert state(job) == ("done", 2)


def test_a_stop_begins_nothing_more_and_ends_after_the_savepoint(job: Job) -> None:
    ask(job, 1.0, savepoint="monday", then="stop")
    job.all_ack(1, 2.0, handles=True)
    written(job, 1, 3.0)
    assert job.take(job.core.tick(60.0)) == [], "nothing begins while it is being published"
    job.take(job.core.published(1, "sink", 61.0))
    assert job.take(job.core.tick(62.0)) == [], "nor while it is being kept"
    assert job.take(job.core.exported(1, "monday", KEPT, 63.0)) == [Stopped(1)]
    assert job.take(job.core.tick(99.0)) == []


def test_a_second_stop_joins_and_savepoints_too(job: Job) -> None:
    ask(job, 1.0, then="stop")
    assert ask(job, 1.5, "b", then="stop") == []
    assert ask(job, 1.5, "c", "monday") == []
    job.all_ack(1, 2.0)
    found = written(job, 1, 3.0)
    assert export(1) in found
    assert Stopped(1) not in found, "a savepoint is being made"
    assert state(job, "b") == ("done", 1)
    assert job.take(job.core.exported(1, "monday", KEPT, 4.0)) == [Stopped(1)]
    job.take(job.core.stop(5.0))
    assert ask(job, 6.0, "d", then="stop") == []
    assert state(job, "d") == ("done", 1)
    assert ask(job, 6.0, "e", "tuesday") == [export(1, "tuesday")]


def test_a_savepoint_that_is_refused_stops_nothing(job: Job) -> None:
    ask(job, 1.0, savepoint="monday", then="stop")
    job.all_ack(1, 2.0)
    written(job, 1, 3.0)
    job.take(job.core.exported(1, "monday", StorageError("disk full"), 4.0))
    assert job.core.taken("a").error.message == "disk full"
    assert job.take(job.core.tick(20.0)) == [TriggerSources(2, (SOURCE,))]


def test_a_job_that_ends_before_it_is_served_says_so(job: Job) -> None:
    ask(job, 1.0, savepoint="monday")
    ask(job, 1.0, "b", then="drain")
    job.take(job.core.stop(2.0, "the job was cancelled"))
    for key in ("a", "b"):
        told = job.core.taken(key)
        assert (told.state, told.error.kind) == ("failed", "CancelledError")
        assert told.error.message == (
            "the job ended before the checkpoint was complete: the job was cancelled"
        )


def test_the_last_checkpoint_serves_all_of_a_job_that_ends_by_itself(job: Job) -> None:
    job.take(job.core.tick(10.0))
    ask(job, 10.5, savepoint="monday")
    ask(job, 10.5, "b", then="stop")
    ask(job, 10.5, "c", then="drain")
    for key in (SOURCE, SINK, OTHER):
        found = job.take(job.core.finished(ack(key, FINAL), 11.0))
    assert isinstance(found[0], WriteManifest)
    found = written(job, 1, 12.0)
    assert export(1) not in found, "nothing could go on from it: its windows are closed"
    assert found[-1] == Ended(1)
    assert Stopped(1) not in found, "it has ended"
    assert [state(job, key)[0] for key in "abc"] == ["failed", "done", "done"]
    assert "came to its end before a savepoint" in job.core.taken("a").error.message
    ask(job, 13.0, "d", then="stop")
    assert state(job, "d") == ("done", 1)


def test_sources_end_once_no_checkpoint_is_under_way(job: Job) -> None:
    job.take(job.core.tick(10.0))
    assert ask(job, 11.0, then="drain") == []
    job.all_ack(1, 12.0)
    assert written(job, 1, 12.0)[-1] == DrainSources((SOURCE,))
    assert job.rows["job/drain"]
    assert job.take(job.core.tick(100.0)) == [], "none begins until all have ended"
    assert DrainSources((SOURCE,)) in job.take(job.core.remind())
    job.restart()
    assert job.core.drains
    assert DrainSources((SOURCE,)) in job.start(101.0), "another coordinator says it again"
    for key in (SOURCE, SINK, OTHER):
        job.take(job.core.finished(ack(key, FINAL), 102.0))
    assert written(job, 2, 103.0)[-1] == Ended(2)


def test_it_is_drained_again_after_a_loss(job: Job) -> None:
    assert ask(job, 1.0, then="drain") == [DrainSources((SOURCE,))]
    job.take(job.core.finished(ack(SOURCE, FINAL), 2.0))
    job.take(job.core.lost("an agent was lost", 3.0))
    job.take(job.core.restore(4.0))
    assert job.core.drains, "tasks are told so when they begin"
    assert DrainSources((SOURCE,)) in job.start(5.0)


def test_a_savepoint_is_taken_before_the_sources_end(job: Job) -> None:
    assert ask(job, 1.0, savepoint="monday", then="drain") == [TriggerSources(1, (SOURCE,))]
    assert ask(job, 1.5, "b", "tuesday") == []
    job.all_ack(1, 2.0)
    written(job, 1, 3.0)
    job.take(job.core.exported(1, "monday", KEPT, 4.0))
    assert not job.core.drains, "somebody else waits for a checkpoint"
    assert job.take(job.core.tick(4.0)) == [TriggerSources(2, (SOURCE,))]
    job.all_ack(2, 5.0)
    written(job, 2, 5.0)
    assert job.take(job.core.exported(2, "tuesday", KEPT, 6.0)) == [DrainSources((SOURCE,))]


def test_a_job_that_is_cancelled_while_it_is_drained_can_go_on(job: Job) -> None:
    job.complete(1, 10.0)
    ask(job, 11.0, then="drain")
    job.take(job.core.finished(ack(SOURCE, FINAL), 12.0))
    job.take(job.core.stop(13.0))
    assert "job/drain" not in job.rows
    assert not job.core.drains
    assert job.core.newest == 1, "with no window that was closed too early"


def test_what_is_being_kept_is_not_removed(job: Job) -> None:
    job.config = job.config.__class__(interval_s=10, timeout_s=60, retained=1)
    job.core = job.coordinator(1)
    job.start()
    ask(job, 1.0, savepoint="monday")
    job.all_ack(1, 2.0)
    written(job, 1, 3.0)
    job.take(job.core.tick(20.0))
    job.all_ack(2, 21.0)
    assert RemoveCheckpoints((1, 2), 2) in written(job, 2, 22.0)
    job.take(job.core.exported(1, "monday", KEPT, 23.0))
    job.take(job.core.tick(40.0))
    job.all_ack(3, 41.0)
    assert RemoveCheckpoints((3,), 3) in written(job, 3, 42.0)


def test_a_savepoint_that_nobody_waits_for_is_refused(job: Job) -> None:
    assert job.core.exported(1, "monday", KEPT, 1.0) == []
    assert job.refused == {"checkpoint: savepoint not awaited": 1}


def test_questions_are_bounded(job: Job) -> None:
    for number in range(OPEN_MAX):
        ask(job, 1.0, f"open {number}")
    with pytest.raises(ConfigError, match=f"{OPEN_MAX} checkpoints were asked for"):
        ask(job, 1.0, "one too many")
    job.all_ack(1, 2.0)
    written(job, 1, 3.0)
    for number in range(PAST_MAX):
        ask(job, 4.0, f"more {number}")
        job.take(job.core.stop(5.0))
    assert not job.core.knows("open 0"), "old answers are forgotten"
    assert job.core.knows(f"more {PAST_MAX - 1}")
