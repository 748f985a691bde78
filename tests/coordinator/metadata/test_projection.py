"""What SQL sees: pure, for any bytes, and what the columns are said to hold."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.control import control_pb2 as pb
from fabric.coordinator.metadata.projection import TABLES_SQL, row_of
from fabric.coordinator.metadata.store import TABLES, Table
from tests.support.arrays import examples


def columns(table: Table, key: str, message: object) -> dict[str, object]:
    row = row_of(table, key, message.SerializeToString())  # type: ignore[attr-defined]
    names = [TABLES_SQL[table].key, "record", *TABLES_SQL[table].types]
    return {name: value for name, value in zip(names, row, strict=True) if name != "record"}


@examples()
@given(table=st.sampled_from(TABLES), key=st.text(max_size=9), record=st.binary(max_size=80))
def test_any_bytes_make_a_row(table: Table, key: str, record: bytes) -> None:
    row = row_of(table, key, record)
    assert row[:2] == (key, record)
    assert len(row) == 2 + len(TABLES_SQL[table].types)
    assert not any("\0" in value for value in row[2:] if isinstance(value, str))
    assert row == row_of(table, key, record)


def test_a_job() -> None:
    job = pb.JobStatus(
        job_id="job-1", name="a\0b", state=pb.JOB_FAILED, submitted_s=1e9, seconds=2.5, run=1,
        error=pb.ErrorDetail(kind="DataError", message="bad row"), client_key="k",
    )  # fmt: skip
    assert columns("jobs", "job-1", pb.StoredJob(status=job)) == {
        "job_id": "job-1",
        "job_name": "a\N{REPLACEMENT CHARACTER}b",
        "status": "failed",
        "created_at": datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC),
        "completed_at": datetime(2001, 9, 9, 1, 46, 42, 500_000, tzinfo=UTC),
        "client_key": "k",
        "run": 1,
        "error": "DataError: bad row",
    }
    job.state = pb.JOB_RUNNING
    assert columns("jobs", "job-1", pb.StoredJob(status=job))["completed_at"] is None


def test_a_job_that_ended_at_a_known_time() -> None:
    stored = pb.StoredJob(status=pb.JobStatus(state=pb.JOB_FINISHED, submitted_s=1), ended_s=1e9)
    found = columns("jobs", "job-1", stored)
    assert found["completed_at"] == datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)


@pytest.mark.parametrize("table", ["tasks", "attempts"])
def test_a_task(table: Table) -> None:
    status = pb.TaskStatus(
        stage=1, task=2, attempt=3, epoch=4, node_path="by", agent_id="a1",
        state=pb.TASK_FINISHED, started_s=1e9, ended_s=1e9 + 1,
    )  # fmt: skip
    message = pb.StoredTask(status=status) if table == "tasks" else status
    found = columns(table, "job-1/000001.000002", message)
    assert (found["job_id"], found["operator_id"], found["agent_id"]) == ("job-1", "by", "a1")
    assert (found["stage"], found["task"], found["attempt"], found["epoch"]) == (1, 2, 3, 4)
    assert found["status"] == "finished"
    assert found["completed_at"] > found["started_at"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("grpc+tcp://10.0.0.7:4711", "10.0.0.7", 4711),
        ("grpc+tls://[::1]:1", "::1", 1),
        ("local:a", "h", None),
        ("grpc://x:99999", "h", None),
        ("[", "h", None),
    ],
)
def test_an_agent(address: str, host: str, port: int | None) -> None:
    hello = pb.Hello(agent_id="a", address=address, host="h", slots=4, version="1")
    stored = pb.StoredAgent(hello=hello, state="busy", seen_s=1e9)
    found = columns("agents", "a", stored)
    assert found["status"] == "busy"
    assert found["last_heartbeat"] == datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
    assert (found["host"], found["port"], found["slots"]) == (host, port, 4)
