"""What is written down of checkpoints reads back the same."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.checkpoint.manifest import FINAL, Seal, SinkHandle, SnapshotAck, TaskSnapshot
from fabric.coordinator.core.checkpoints.completed_checkpoints import CompletedCheckpoints
from fabric.coordinator.core.checkpoints.rows import (
    Pointer,
    Rows,
    final_row,
    last_row,
    no_rows,
    pointer_row,
    rows_of,
)

POINTERS = st.builds(
    Pointer,
    checkpoint=st.integers(1, FINAL - 1),
    seal=st.builds(Seal, st.integers(0, 99), st.integers(0, 2**32 - 1)),
    state=st.sampled_from(("complete", "published", "damaged")),
    handles=st.lists(
        st.tuples(st.text(max_size=5), st.lists(st.binary(max_size=5), max_size=3).map(tuple)),
        max_size=3,
    ).map(tuple),
    n_bytes=st.integers(0, 2**62),
    begun_us=st.integers(0, 2**62),
    seconds=st.floats(0, 1e9),
    reason=st.text(max_size=9),
    adopted=st.booleans(),
)
ACKS = st.builds(
    lambda task, data: SnapshotAck(
        FINAL, 2, task, 1, 1,
        (TaskSnapshot("s", task, 1, range(1), handles=(SinkHandle(FINAL, data),)),),
    ),
    st.integers(0, 10**6 - 1),
    st.binary(max_size=9),
)  # fmt: skip


@settings(deadline=None)
@given(
    st.integers(0, FINAL),
    st.lists(POINTERS, max_size=4, unique_by=lambda p: p.checkpoint),
    st.lists(ACKS, max_size=3, unique_by=lambda ack: ack.task),
)
def test_rows_read_as_written(
    last: int, pointers: list[Pointer], finals: list[SnapshotAck]
) -> None:
    writes = [last_row("j", last)]
    writes += [pointer_row("j", pointer) for pointer in pointers]
    writes += [final_row("j", ack) for ack in finals]
    rows = [(write.key, write.value or b"") for write in writes]
    found = rows_of("j", reversed(rows))
    assert found == Rows(
        last,
        sorted(pointers, key=lambda p: p.checkpoint),
        sorted(finals, key=lambda ack: ack.task),
    )
    completed = CompletedCheckpoints("j", 3)
    completed.restore(rows)
    assert completed.newest == max((p.checkpoint for p in pointers), default=0)
    assert {write.key for write in no_rows("j", found)} == {key for key, _ in rows}
