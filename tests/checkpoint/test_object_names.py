"""A stream's name in a bucket: one process has it, one that was taken for dead writes no more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from obstore.store import MemoryStore

from fabric.checkpoint import object_names
from fabric.checkpoint.names import NameRecord
from fabric.checkpoint.object_names import (
    Lease,
    ObjectName,
    drop_stream,
    named_streams,
    read_record,
)
from fabric.errors import ConfigError, DataError, FencedError, NotFoundError
from fabric.object_store import Bucket

LEASE = ".names/clicks.lease"


@pytest.fixture
def bucket() -> Bucket:
    return Bucket("s3://data/x", store=MemoryStore())


def test_a_name_is_held_written_and_given_back(bucket: Bucket) -> None:
    held = ObjectName(bucket, "clicks")
    assert held.record is None
    held.write(NameRecord("clicks", "job-1", 1))
    held.write(NameRecord("clicks", "job-1", 2))
    (found,) = named_streams(bucket)
    assert found.record == NameRecord("clicks", "job-1", 2)
    assert "process" in found.runs_in
    held.close()
    held.close()
    assert named_streams(bucket)[0].runs_in == ""
    again = ObjectName(bucket, "clicks", sleep=pytest.fail)  # type: ignore[arg-type]
    assert again.record == NameRecord("clicks", "job-1", 2)
    again.close()
    assert drop_stream(bucket, "clicks").name == "clicks"
    assert read_record(bucket, "clicks") is None
    with pytest.raises(NotFoundError, match="no stream 'clicks' in s3://data/x; there are: none"):
        drop_stream(bucket, "clicks")


def elsewhere(bucket: Bucket) -> str:
    """The lease of a process of another host; its tag."""
    lease = Lease("t", 7, "host-b", "another boot")
    bucket.put(LEASE, lease.encode())
    return bucket.read(LEASE)[1]


def test_who_writes_its_lease_keeps_it(bucket: Bucket) -> None:
    tag = elsewhere(bucket)

    def renewed(seconds: float) -> None:
        bucket.replace(LEASE, replace(Lease("t", 7, "host-b", "b"), beat=9).encode(), tag)

    with pytest.raises(ConfigError, match="running already, in process 7 on host-b"):
        ObjectName(bucket, "clicks", sleep=renewed)


def test_a_lease_that_is_not_written_is_taken_over(bucket: Bucket) -> None:
    elsewhere(bucket)
    slept: list[float] = []
    held = ObjectName(bucket, "clicks", sleep=slept.append)
    assert sum(slept) == object_names.LEASE_S
    held.close()


def test_two_that_wait_for_one_lease(bucket: Bucket) -> None:
    """One of them has it in the end."""
    elsewhere(bucket)
    first: list[ObjectName] = []

    def other_comes_first(_: float) -> None:
        if not first:
            first.append(ObjectName(bucket, "clicks", take_over=True))

    with pytest.raises(ConfigError, match="running already"):
        ObjectName(bucket, "clicks", sleep=other_comes_first)
    first[0].close()


def test_who_was_taken_for_dead_writes_no_more(bucket: Bucket) -> None:
    old = ObjectName(bucket, "clicks")
    old.write(NameRecord("clicks", "job-1", 1))
    new = ObjectName(bucket, "clicks", take_over=True)
    assert new.record is not None
    new.write(replace(new.record, starts=2))
    with pytest.raises(FencedError, match="was started by somebody else meanwhile"):
        old.write(NameRecord("clicks", "job-1", 9))
    assert old._write_lease(1) is False
    old.close()
    assert new._write_lease(1)
    new.close()


def test_a_process_of_this_host_that_has_ended(bucket: Bucket) -> None:
    bucket.put(LEASE, Lease("t", 1 << 22, "here", object_names._space()).encode())
    ObjectName(bucket, "clicks", sleep=pytest.fail).close()  # type: ignore[arg-type]


def test_what_is_damaged_is_named(bucket: Bucket) -> None:
    bucket.put(".names/clicks.json", b"{")
    with pytest.raises(DataError, match=r"clicks\.json in the checkpoint folder is damaged"):
        ObjectName(bucket, "clicks")
    assert "damaged" in named_streams(bucket)[0].error
    bucket.put(LEASE, b"[]")
    with pytest.raises(DataError, match="lease is damaged"):
        ObjectName(bucket, "clicks")


def test_a_lease_that_is_its_own_already(bucket: Bucket) -> None:
    """The answer to the request that made it was lost, and a second one found it there."""

    class Lost(Bucket):
        def create(self, key: str, data: bytes) -> str | None:
            super().create(key, data)
            return None

    lost = Lost("s3://data/x", store=MemoryStore())
    held = ObjectName(lost, "clicks", sleep=pytest.fail)  # type: ignore[arg-type]
    assert held.is_held()
    assert held._write_lease(1)
    held.close()
