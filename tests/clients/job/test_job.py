"""A job's handle: waiting, failing, cancelling, what it prints."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import sys
import threading
from typing import Any

import pytest

from fabric.clients.job import status as shown
from fabric.clients.job.job import Job
from fabric.control import control_pb2 as pb
from fabric.errors import CancelledError, ExpressionError, InternalError, PeerLostError

STAGES = [pb.StageStatus(stage=0, node_path="scan_1", n_tasks=2, finished=1, rows=1000, bytes=8000)]


@pytest.fixture
def job(session: Any, control: Any) -> Job:
    return Job(session, control.status(pb.JOB_QUEUED))


def test_waits_until_finished(job: Job, control: Any) -> None:
    control.say(pb.JOB_RUNNING, stages=STAGES)
    control.say(pb.JOB_FINISHED, result_rows=2, seconds=0.5, stages=STAGES)
    assert job.wait() is job
    assert job.state == "finished"
    assert job.rows == 2
    assert repr(job) == "Job(job-1 'test': finished, 2 rows in 0.50 s)"
    assert "stage 0 scan_1: 1 of 2 tasks, 1,000 rows, 8,000 bytes" in job.explain()
    assert "<td>scan_1</td><td>1 / 2</td><td>1,000</td>" in job._repr_html_()
    assert job.collect().to_pydict() == {"a": [1, 2]}
    assert [batch.num_rows for batch in job.iter_batches()] == [2]


def test_a_state_is_a_word_also_when_it_is_copied(job: Job, control: Any) -> None:
    control.say(pb.JOB_FINISHED)
    state = job.wait().state
    made = [copy.copy(state), copy.deepcopy({"s": state})["s"], pickle.loads(pickle.dumps(state))]
    assert made == ["finished"] * 3
    assert {type(each) for each in made} == {str}
    with pytest.raises(
        TypeError, match=r"job\.state is 'finished', a word; called, it names a step"
    ):
        state()


def test_explains_who_waited_for_consumers(job: Job, control: Any) -> None:
    stages = [
        pb.StageStatus(stage=i, node_path=f"scan_{i}", n_tasks=1, backpressure_ratio=ratio)
        for i, ratio in enumerate((0.004, 0.374))
    ]
    control.say(pb.JOB_RUNNING, stages=stages)
    _, first, second = job.explain().splitlines()
    assert first.endswith("0 rows, 0 bytes")
    assert second.endswith("0 rows, 0 bytes, backpressure 37%")


def test_raises_the_jobs_own_error(job: Job, control: Any) -> None:
    detail = pb.ErrorDetail(kind="ExpressionError", message="division by zero", node="ratio")
    control.say(pb.JOB_FAILED, error=detail)
    with pytest.raises(ExpressionError, match="division by zero") as caught:
        job.wait()
    assert (caught.value.where.job, caught.value.where.node) == ("job-1", "ratio")
    assert isinstance(job.error, ExpressionError)
    assert "failed, ExpressionError: division by zero" in repr(job)


def test_cancelled_and_lost(job: Job, control: Any, session: Any) -> None:
    control.say(pb.JOB_CANCELLED)
    with pytest.raises(CancelledError, match=r"the job was cancelled \(job job-1\)"):
        job.wait()

    class Broken(type(control)):  # type: ignore[misc]
        def watch(self, request: pb.JobRequest) -> Any:
            raise PeerLostError("the coordinator does not answer")
            yield

    session.control = Broken()
    with pytest.raises(PeerLostError, match="does not answer"):
        Job(session, control.status(pb.JOB_RUNNING)).wait()


def test_a_watch_that_just_ends_is_a_bug(session: Any, control: Any) -> None:
    class Mute(type(control)):  # type: ignore[misc]
        def watch(self, request: pb.JobRequest) -> Any:
            return iter(())

    session.control = Mute()
    with pytest.raises(InternalError, match="stopped telling"):
        Job(session, control.status(pb.JOB_RUNNING)).wait()


def test_timeout_leaves_the_job_alone(job: Job, control: Any) -> None:
    with pytest.raises(TimeoutError, match="job job-1 still runs"):
        job.wait(timeout_s=0.01)
    assert control.calls == []
    control.say(pb.JOB_FINISHED)  # ends the listening thread


def test_ctrl_c_cancels_the_job(job: Job, control: Any) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    control.say(pb.JOB_RUNNING)
    threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGINT]).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            job.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    assert control.calls == ["cancel"]


def test_as_context_manager_it_releases(job: Job, control: Any) -> None:
    with job as same:
        assert same is job
    assert control.calls == ["release"]
    assert job.state == "released"


def test_partitions_come_with_a_snippet(job: Job, control: Any) -> None:
    control.say(pb.JOB_RUNNING)
    (partition,) = job.partitions()
    assert "FlightDescriptor.for_path('job', 'job-1', 'result', '0')" in partition.snippet()
    compile(partition.snippet(), "snippet", "exec")
    assert "ticket" not in repr(partition)


def test_a_wait_for_slots_is_shown(job: Job, control: Any) -> None:
    control.say(pb.JOB_QUEUED, waiting="needs a slot, and streams hold all 2")
    assert job.status.state == pb.JOB_QUEUED
    assert repr(job) == "Job(job-1 'test': queued, it needs a slot, and streams hold all 2)"


def test_a_wait_that_lasts_is_a_warning_where_nothing_is_drawn(
    control: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shown, "QUIET_S", 0.0)
    display = shown.JobProgress()
    waiting = control.status(pb.JOB_QUEUED, waiting="needs 1 slot")
    display.show(waiting)
    display.show(waiting)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(shown, "PATIENT_S", 0.0)
    display.show(waiting)
    display.show(waiting)
    said = capsys.readouterr().err
    assert said.count("the job waits") == 1
    assert "why='needs 1 slot'" in said


def test_what_a_stream_counts_is_shown(job: Job, control: Any) -> None:
    late = pb.Counted(node_path="by", name="late_rows", n=972)
    stage = pb.StageStatus(stage=0, node_path="by", n_tasks=1, rows_in=1000, counts=[late])
    stage.watermark_us = 0
    control.say(pb.JOB_RUNNING, stages=[stage])
    assert job.status.state == pb.JOB_RUNNING
    assert repr(job).endswith("running, 0 of 1 tasks done, 1,000 rows in, 972 late rows)")


def test_progress_is_for_long_work_on_terminals(
    control: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status = control.status(pb.JOB_RUNNING, stages=STAGES)
    for enabled, quiet_s in ((False, 0.0), (True, 60.0), (None, 0.0)):
        monkeypatch.setattr(shown, "QUIET_S", quiet_s)
        display = shown.JobProgress(enabled=enabled)
        display.show(status)
        display.close()
    assert capsys.readouterr().err == ""
    assert not sys.stderr.isatty()
    monkeypatch.setattr(shown, "QUIET_S", 0.0)
    display = shown.JobProgress(enabled=True)
    display.show(status)
    display.show(status)
    display.close()
    assert "scan_1" in capsys.readouterr().err


def test_a_job_is_printed_as_it_is_now(job: Job, control: Any) -> None:
    control.say(pb.JOB_RUNNING, stages=STAGES)
    assert repr(job).endswith("queued)")
    assert str(job) == "Job(job-1 'test': running, 1 of 2 tasks done)"
    control.say(pb.JOB_FINISHED, result_rows=2, seconds=0.5, stages=STAGES)
    assert f"{job}" == "Job(job-1 'test': finished, 2 rows in 0.50 s)"


def test_a_job_whose_coordinator_is_away_is_printed_as_it_was(
    job: Job, control: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(request: pb.JobRequest) -> Any:
        raise PeerLostError("nobody answers")

    monkeypatch.setattr(control, "watch", away)
    assert str(job) == "Job(job-1 'test': queued; heard last, now: nobody answers)"


def test_a_status_is_printed_for_people(job: Job, control: Any) -> None:
    control.say(pb.JOB_FINISHED, result_rows=2, seconds=0.5, stages=STAGES)
    status = job.status
    assert str(status) == job.explain()
    assert str(status).splitlines() == [
        "job-1 'test': finished, 2 rows in 0.50 s",
        "  stage 0 scan_1: 1 of 2 tasks, 1,000 rows, 8,000 bytes",
    ]
    assert repr(status) == "JobStatus(job-1 'test': finished, 2 rows in 0.50 s)"
    assert status.state == pb.JOB_FINISHED
    assert [stage.node_path for stage in status.stages] == ["scan_1"]
    assert not status.HasField("error")
    assert status == copy.deepcopy(status) == job.last
