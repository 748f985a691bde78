"""The checks on receipt, against every kind of damage a stream can have."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.shuffle.checksum import batch_crc32c
from fabric._cython.shuffle.wire.headers import WireCheck
from fabric.errors import PartitionLostError
from fabric.flight.header import EdgeHeader, Event
from tests.support.flight_rig import encode_header

SCHEMA = pa.schema([("k", pa.int64())])
Messages = list[tuple[EdgeHeader, pa.RecordBatch]]


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"k": list(values)}, SCHEMA)


def messages(producer: int, attempt: int, *sizes: int) -> Messages:
    """A right stream of one producer."""
    base = EdgeHeader(job="j", edge=1, producer=producer, attempt=attempt)
    made = []
    for sequence, size in enumerate(sizes):
        rows = batch(*range(size))
        header = replace(
            base, sequence=sequence, partitions=((3, size),), crc32c=batch_crc32c(rows)
        )
        made.append((header, rows))
    end = replace(base, sequence=len(sizes), event=Event.END, total_rows=sum(sizes))
    return [*made, (end, pa.RecordBatch.from_pylist([], SCHEMA))]


def checked(stream: Messages, producers: list[tuple[int, int]]) -> tuple[int, int]:
    """Rows let through, and duplicates dropped."""
    check = WireCheck(job="j", edge=1, producers=producers, partition=3, node="n", agent="agent-7")
    rows = sum(b.num_rows for header, b in stream if check.accept(encode_header(header), b))
    check.finish()
    return rows, check.duplicates


def refused(stream: Messages, match: str) -> None:
    with pytest.raises(PartitionLostError, match=match) as caught:
        checked(stream, [(0, 2)])
    where = caught.value.where
    assert (where.job, where.node, where.agent) == ("j", "n", "agent-7")
    assert where.task.startswith(("0#", "9#"))
    assert "partition 3 of edge 1" in caught.value.message


def test_right_streams_pass() -> None:
    assert checked(messages(0, 2, 5, 0, 7) + messages(1, 0, 4), [(0, 2), (1, 0)]) == (16, 0)
    assert checked(messages(0, 2), [(0, 2)]) == (0, 0)


@given(st.data())
def test_repeats_are_dropped_and_counted(data: st.DataObject) -> None:
    whole = messages(0, 2, 3, 1, 4)
    repeats = data.draw(st.lists(st.integers(0, 3), max_size=8))
    stream = list(whole)
    for index in repeats:
        seen_at = stream.index(whole[index])
        stream.insert(data.draw(st.integers(seen_at + 1, len(stream))), whole[index])
    assert checked(stream, [(0, 2)]) == (8, len(repeats))


@given(st.integers(0, 3))
def test_a_missing_message_is_noticed(index: int) -> None:
    stream = messages(0, 2, 3, 1, 4)
    del stream[index]
    with pytest.raises(PartitionLostError, match=r"missing|before its rows did"):
        checked(stream, [(0, 2)])


def test_each_damage_has_its_words() -> None:
    good = messages(0, 2, 3, 2)
    first, rows = good[0]

    def changed(**fields: object) -> Messages:
        return [(replace(first, **fields), rows), *good[1:]]  # type: ignore[arg-type]

    refused(changed(job="k"), "belongs to k/e1")
    refused(changed(edge=2), "belongs to j/e2")
    refused(changed(producer=9), "nobody asked")
    refused(changed(attempt=1), "an older attempt than 2")
    refused(changed(attempt=3), "a newer attempt than 2")
    refused(changed(crc32c=1), "checksum differs")
    refused(changed(partitions=((3, 2),)), "other rows than its header")
    refused(changed(partitions=((4, 3),)), "another partition")
    refused([(first, batch(9, 9, 9)), *good[1:]], "checksum differs")
    end, none = good[-1]
    refused([*good[:-1], (replace(end, total_rows=9), none)], "5 of 9 rows arrived")
    refused([*good, (replace(end, sequence=3), none)], "after the end")
    refused(good[:-1], "ended before its rows did")
    refused([], "ended before its rows did")


def test_a_header_that_cannot_be_read_is_a_lost_partition() -> None:
    check = WireCheck(job="j", edge=1, producers=[(0, 0)], partition=3)
    for data in (b"", b"\xff" * 9):
        with pytest.raises(PartitionLostError, match=r"task \?: an? .*header"):
            check.accept(data, batch(1))
