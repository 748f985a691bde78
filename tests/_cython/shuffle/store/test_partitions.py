from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric._cython.shuffle.checksum import batch_crc32c
from fabric._cython.shuffle.store.store import Store, Stream
from fabric._cython.shuffle.wire.headers import WireCheck
from fabric.errors import InternalError, NotFoundError, PartitionLostError
from fabric.flight.header import Event, decode_header

SCHEMA = pa.schema([("a", pa.int64())])
EDGE = ("job", 3)


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


def offsets(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def filled() -> Store:
    """Two producers, two partitions."""
    store = Store("agent-1")
    for producer in (0, 1):
        store.begin(*EDGE, SCHEMA, 2, producer, 0)
        store.append(*EDGE, producer, 0, batch(1, 2, 3), offsets(0, 1, 3))
        store.append(*EDGE, producer, 0, batch(4, 5), offsets(0, 2, 2))
        assert store.seal(*EDGE, producer, 0) == (5, 40)
    return store


def messages(stream: Stream) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    return chain.from_iterable(iter(stream.take, []))


def values(store: Store, partition: int, *producers: int) -> list[int]:
    asked = [(p, 0) for p in producers]
    found = iter(store.batches("job", 3, partition, asked).take_batches, [])
    return [v for some in found for b in some for v in b.column(0).to_pylist()]


def test_partitions_hold_their_rows_in_order() -> None:
    store = filled()
    assert values(store, 0, 0) == [1, 4, 5]
    assert values(store, 1, 0, 1) == [2, 3, 2, 3]
    assert values(store, 1) == []
    assert store.stored_bytes == 80
    assert store.jobs() == {"job"}
    assert store.edge_schema("job", 3) == SCHEMA


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), max_size=30), max_size=5))
def test_all_partitions_together_are_what_was_appended(batches: list[list[int]]) -> None:
    store = Store()
    store.begin(*EDGE, SCHEMA, 4, 0, 0)
    for rows in batches:
        ordered = sorted(rows)
        bounds = offsets(*[sum(v < p for v in rows) for p in range(5)])
        store.append(*EDGE, 0, 0, batch(*ordered), bounds)
    n_rows, _ = store.seal(*EDGE, 0, 0)
    assert n_rows == sum(len(rows) for rows in batches)
    for partition in range(4):
        expected = [partition] * sum(rows.count(partition) for rows in batches)
        assert values(store, partition, 0) == expected


def test_messages_pass_the_receivers_check() -> None:
    store = filled()
    check = WireCheck(job="job", edge=3, producers=[(0, 0), (1, 0)], partition=1)
    kinds = []
    for data, rows in messages(store.open("job", 3, 1, [(0, 0), (1, 0)])):
        header = decode_header(data)
        assert check.accept(data, rows)
        if header.event is Event.ROWS:
            assert header.crc32c == batch_crc32c(rows)
        else:
            assert rows.num_rows == 0
            assert (header.total_rows, header.total_bytes) == (2, 16)
        kinds.append((header.producer, header.sequence, header.event.name))
    check.finish()
    assert kinds == [(0, 0, "ROWS"), (0, 1, "END"), (1, 0, "ROWS"), (1, 1, "END")]


def test_broadcast_rows_are_stored_once_and_read_by_all() -> None:
    store = Store()
    store.begin(*EDGE, SCHEMA, 3, 0, 0)
    store.append(*EDGE, 0, 0, batch(1, 2), None)
    assert store.seal(*EDGE, 0, 0) == (2, 16)
    assert [values(store, p, 0) for p in range(3)] == [[1, 2]] * 3
    assert store.stored_bytes == 16


def test_only_sealed_outputs_can_be_read() -> None:
    store = Store("agent-1")
    store.begin(*EDGE, SCHEMA, 2, 0, 1)
    store.append(*EDGE, 0, 1, batch(1), offsets(0, 1, 1))
    with pytest.raises(PartitionLostError, match="partition 1 of edge 3, written by task 0") as e:
        store.open("job", 3, 1, [(0, 1)])
    assert e.value.where.agent == "agent-1"
    store.seal(*EDGE, 0, 1)
    with pytest.raises(PartitionLostError, match="task 0 attempt 0, is not on this agent"):
        store.open("job", 3, 1, [(0, 0)])
    with pytest.raises(NotFoundError, match="has partitions 0 to 1, not 2"):
        store.open("job", 3, 2, [(0, 1)])
    with pytest.raises(NotFoundError, match="edge 4 has no partitions on this agent"):
        store.open("job", 4, 0, [(0, 1)])
    with pytest.raises(InternalError, match="from task 0#1 is sealed already"):
        store.append(*EDGE, 0, 1, batch(1), None)
    with pytest.raises(InternalError, match="opened twice with different shapes"):
        store.begin(*EDGE, SCHEMA, 3, 1, 0)


def test_release_gives_all_back_but_streams_go_on() -> None:
    store = filled()
    reading = messages(store.open("job", 3, 1, [(0, 0)]))
    next(reading)
    assert store.release("job") == 80
    assert store.stored_bytes == 0
    assert decode_header(next(reading)[0]).event is Event.END
    with pytest.raises(NotFoundError):
        store.open("job", 3, 1, [(0, 0)])
    assert store.release("job") == 0


def test_discarded_and_restarted_attempts_leave_nothing() -> None:
    store = Store()
    store.begin(*EDGE, SCHEMA, 2, 0, 0)
    store.append(*EDGE, 0, 0, batch(1, 2), None)
    store.discard(*EDGE, 0, 0)
    store.discard(*EDGE, 0, 0)
    assert store.stored_bytes == 0
    assert store.jobs() == set()
    store.begin(*EDGE, SCHEMA, 2, 0, 0)
    store.append(*EDGE, 0, 0, batch(1), None)
    store.begin(*EDGE, SCHEMA, 2, 0, 0)
    assert store.seal(*EDGE, 0, 0) == (0, 0)
    assert store.stored_bytes == 0


def test_a_write_after_release_is_refused() -> None:
    store = Store()
    store.begin(*EDGE, SCHEMA, 2, 0, 0)
    store.release("job")
    with pytest.raises(PartitionLostError, match="the job was released"):
        store.append(*EDGE, 0, 0, batch(1), None)


def test_messages_of_views_carry_their_own_rows_only() -> None:
    """Each of 8 partitions is a slice of one batch, whose bytes it must not carry along."""
    texts = pa.array([f"{n:06}" * 16 for n in range(80_000)], pa.string_view())
    whole = pa.record_batch([texts], names=["a"])
    store = Store()
    store.begin(*EDGE, whole.schema, 8, 0, 0)
    store.append(*EDGE, 0, 0, whole, offsets(*range(0, 80_001, 10_000)))
    store.seal(*EDGE, 0, 0)
    sent = [m for p in range(8) for _, m in messages(store.open("job", 3, p, [(0, 0)]))]
    assert sum(m.num_rows for m in sent) == 80_000
    assert sum(map(pa.ipc.get_record_batch_size, sent)) < 1.2 * whole.nbytes
