"""Rows in shared memory: unchanged, recycled, kept while they are read, nothing read elsewhere."""

from __future__ import annotations

import gc
import os

import pyarrow as pa
import pytest
from hypothesis import given

from fabric.agent.slot import slot_pb2 as sp
from fabric.agent.slot.chunks import CHUNK_BYTES, FREE_BYTES_MAX, Inbox, Outbox
from fabric.errors import InternalError
from tests.support.arrays import batches, examples, rendered
from tests.support.wait import wait_until

BATCH = pa.record_batch({"a": [1, 2, None], "s": ["x", None, "long enough"]})


class Pair:
    """Both ends, without a socket between."""

    def __init__(self) -> None:
        self.outbox, self.inbox = Outbox(), Inbox()
        self.n_opened = self.n_closed = 0

    def across(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.outbox.reuse(self.inbox.released())
        placed, memory = self.outbox.place(batch), sp.Memory()
        descriptors = self.outbox.announce(memory)
        self.n_opened += len(memory.opened)
        self.n_closed += len(memory.closed)
        self.inbox.apply(memory, [os.dup(each) for each in descriptors])
        for each in descriptors:
            os.close(each)
        return self.inbox.batch(placed)


@given(batch=batches())
@examples()
def test_every_batch_comes_out_unchanged(batch: pa.RecordBatch) -> None:
    found = Pair().across(batch)
    found.validate(full=True)
    assert found.schema.equals(batch.schema, check_metadata=True)
    assert found.num_rows == batch.num_rows
    for column, expected in zip(found.columns, batch.columns, strict=True):
        assert rendered(column) == rendered(expected)


@pytest.mark.parametrize("rows", [0, 5])
def test_rows_without_columns_are_counted(rows: int) -> None:
    none = pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    assert Pair().across(none).num_rows == rows


def test_metadata_and_nullability_cross() -> None:
    schema = pa.schema([pa.field("a", pa.int8(), False, {"k": "v"})], {"m": "n"})
    batch = pa.RecordBatch.from_arrays([pa.array([1], pa.int8())], schema=schema)
    assert Pair().across(batch).schema.equals(schema, check_metadata=True)


def test_batches_that_are_let_go_leave_their_room_to_others() -> None:
    pair = Pair()
    for _ in range(100):
        assert pair.across(BATCH).equals(BATCH)
    assert pair.n_opened == 1


def test_batches_in_use_are_never_written_over() -> None:
    pair, kept = Pair(), []
    for i in range(40):
        values = pa.array([i] * (CHUNK_BYTES // 64), pa.int64())  # an eighth of a chunk
        kept.append(pair.across(pa.record_batch({"a": values})))
    assert pair.n_opened == -(-40 // 7)
    for i, batch in enumerate(kept):
        assert batch["a"].unique().to_pylist() == [i]


def test_of_what_is_let_go_only_so_much_is_kept() -> None:
    pair = Pair()
    values = pa.record_batch({"a": pa.array(range(CHUNK_BYTES // 9), pa.int64())})  # one a chunk
    n = 2 * FREE_BYTES_MAX // CHUNK_BYTES
    kept = [pair.across(values) for _ in range(n)]
    assert (pair.n_opened, pair.n_closed) == (n, 0)
    kept.clear()
    gc.collect()
    pair.across(BATCH)
    assert n // 2 - 2 <= pair.n_closed <= n // 2
    for _ in range(n // 2):
        kept.append(pair.across(values))
    assert pair.n_opened == n


def test_a_larger_batch_has_a_larger_chunk_which_is_used_again() -> None:
    pair = Pair()
    large = pa.record_batch({"a": pa.array(range(CHUNK_BYTES // 4), pa.int64())})
    before = 0
    for _ in range(20):
        found = pair.across(large)
        assert found.equals(large)
        before = before or pair.n_opened
    assert pair.n_opened <= before + 1


def test_rows_stay_readable_when_both_ends_are_closed() -> None:
    pair = Pair()
    found = pair.across(BATCH)
    pair.outbox.close()
    pair.inbox.close()
    gc.collect()
    assert found.equals(BATCH)


def test_descriptors_are_not_kept() -> None:
    before = len(os.listdir("/proc/self/fd"))
    pair = Pair()
    kept = [pair.across(BATCH.slice(0, 1)) for _ in range(10)]
    kept.append(pair.across(pa.record_batch({"a": pa.array(range(CHUNK_BYTES // 4), pa.int64())})))
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)  # others may have closed some


@pytest.mark.parametrize(
    "placed",
    [
        sp.Placed(chunk=9, begin=0, size=8),
        sp.Placed(chunk=1, begin=CHUNK_BYTES, size=8),
        sp.Placed(chunk=1, begin=8, size=1 << 63),
        sp.Placed(chunk=1, begin=0, size=0),
        sp.Placed(chunk=1, begin=4096, size=512),
    ],
)
def test_a_place_without_rows_is_refused(placed: sp.Placed) -> None:
    pair = Pair()
    pair.across(BATCH)
    with pytest.raises(InternalError):
        pair.inbox.batch(placed)


def test_a_chunk_that_could_shrink_or_is_smaller_than_it_says_is_refused() -> None:
    unsealed = os.memfd_create("x", os.MFD_ALLOW_SEALING)
    os.ftruncate(unsealed, 4096)
    with pytest.raises(InternalError, match="is not as large as it says"):
        Inbox().apply(sp.Memory(opened=[sp.Chunk(number=1, size=4096)]), [unsealed])
    outbox, memory = Outbox(), sp.Memory()
    outbox.place(BATCH)
    descriptors = outbox.announce(memory)
    memory.opened[0].size += 4096
    with pytest.raises(InternalError, match="is not as large as it says"):
        Inbox().apply(memory, descriptors)


def test_what_was_not_in_use_cannot_be_let_go() -> None:
    with pytest.raises(InternalError, match="too often"):
        Outbox().reuse([1])
