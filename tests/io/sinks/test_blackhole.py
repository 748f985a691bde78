"""The gate holds its task until its file is there, or somebody gives up."""

from __future__ import annotations

from threading import Thread

import pyarrow as pa
import pytest

import fabric
from fabric import streams
from fabric.errors import CancelledError, ConfigError, PlanError
from fabric.ids import TaskId
from fabric.io.sinks import abandon, open_sink, publish
from fabric.io.sinks.blackhole import Blackhole
from fabric.io.sinks.gate import gate_file
from fabric.plan.targets import GateTarget


def test_rows_are_counted_and_dropped() -> None:
    job = streams.generator(n_rows=1_000).write_stream(streams.to_blackhole())
    job.wait(timeout_s=60)
    assert (job.rows, job.name) == (1_000, "write stream nowhere")


def test_its_handle_publishes_nothing() -> None:
    sink = Blackhole()
    publish([sink.prepare(1), sink.prepare(2)])


def test_rows_with_an_end_have_no_use_for_it() -> None:
    with pytest.raises(PlanError, match="to_blackhole is for streams"):
        fabric.from_dict({"a": [1]}).write_stream(streams.to_blackhole())


BATCH = pa.record_batch({"a": [1, 2]})


@pytest.fixture
def gate(tmp_path, monkeypatch):
    monkeypatch.setenv("FABRIC_GATES", str(tmp_path))
    return open_sink(GateTarget("g1"), BATCH.schema, TaskId("job-1", 0, 0), 1)


def waiting(gate):
    ended = []

    def work():
        try:
            ended.append(gate.prepare())
        except CancelledError as error:
            ended.append(error.message)

    thread = Thread(target=work)
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    return thread, ended


def test_opens_when_its_file_appears(gate):
    gate.write(BATCH)
    thread, ended = waiting(gate)
    gate_file("g1").touch()
    thread.join(60)
    assert b'"rows": 2' in ended[0]
    publish(ended)
    abandon(ended)


def test_giving_up_ends_the_wait(gate):
    thread, ended = waiting(gate)
    gate.abandon()
    thread.join(60)
    assert ended == ["gate g1 was abandoned before it opened"]
    with pytest.raises(CancelledError):
        gate.write(BATCH)


def test_its_name_is_no_path():
    with pytest.raises(ConfigError, match="is not allowed"):
        open_sink(GateTarget("../g"), BATCH.schema, TaskId("job-1", 0, 0), 1)
