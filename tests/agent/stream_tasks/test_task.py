"""A task of a stream that ends amid an unaligned snapshot, and one that begins with rows of one."""

from __future__ import annotations

from collections import deque
from unittest.mock import MagicMock

import pyarrow as pa
import pytest

from fabric._cython.shuffle.ring.ring import Rows
from fabric.agent.stream_tasks.channels import Channels, Inbox, Recording
from fabric.agent.stream_tasks.sources import ROWS_MIN
from fabric.agent.stream_tasks.task import StreamTask
from fabric.control import control_pb2 as pb
from fabric.errors import CancelledError


@pytest.fixture
def parts() -> MagicMock:
    """Of a task without sources that has nothing to do."""
    parts = MagicMock()
    parts.chain.done = parts.chain.has_more = parts.chain.is_full = parts.sources.open = False
    parts.chain.on_barrier.return_value = parts.sources.on_barrier.return_value = {}
    parts.inbox.recorded.return_value = None
    parts.clock.monotonic_s.return_value = parts.clock.wall_s.return_value = 0.0
    return parts


def task_of(parts: MagicMock) -> StreamTask:
    names = (
        "chain", "sources", "channels", "inbox", "edges", "outputs", "uploads", "mailbox",
        "progress", "cancellation", "clock",
    )  # fmt: skip
    return StreamTask(
        **{name: getattr(parts, name) for name in names}, node="counts", replayed=deque(),
        sink=None, results=None, lent=False, unreadable="",
    )  # fmt: skip


def test_an_upload_waits_for_no_rows_in_flight_once_its_task_has_ended(parts: MagicMock) -> None:
    """A cancel comes between the snapshot and its barrier, before the rows are recorded."""
    parts.mailbox.take.return_value = [pb.TriggerCheckpoint(checkpoint=3, unaligned=True)]
    parts.inbox.skip_alignment.return_value = [], Recording(3, frozenset(), 1)
    parts.outputs.mark.side_effect = CancelledError("the job was cancelled")
    task = task_of(parts)
    with pytest.raises(CancelledError):
        task.run()
    (call,) = parts.uploads.store.call_args_list
    with pytest.raises(CancelledError, match="the task has ended"):
        call.args[0].inflight.result(timeout=10)


def test_a_slow_task_takes_few_of_its_rows_in_flight_at_first(parts: MagicMock) -> None:
    """The next checkpoint waited for all of them: how long a row takes was not known yet."""
    parts.channels = Channels({4: [0]})
    parts.inbox = Inbox(parts.channels, 1 << 30)
    parts.inbox.add([(4, Rows(0, pa.record_batch({"v": range(40_000)})))])
    parts.mailbox.take.return_value, parts.edges.take.return_value = [], ()
    taken: list[int] = []

    def works(edge: int, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        taken.append(batch.num_rows)
        parts.clock.monotonic_s.return_value += batch.num_rows * 0.0005
        parts.chain.done = sum(taken) == 40_000
        return []

    parts.chain.on_batch.side_effect = works
    task_of(parts).run()
    assert taken[0] == ROWS_MIN
    assert max(taken) <= 2 * ROWS_MIN


def test_a_task_whose_chain_is_full_reads_nothing_and_obeys(parts: MagicMock) -> None:
    """A barrier need not wait until a service answers."""
    parts.channels, parts.sources.open = Channels({}, has_sources=True), True
    parts.inbox = Inbox(parts.channels, 1 << 30)
    parts.chain.is_full = True
    parts.sources.on_barrier.return_value, parts.chain.on_barrier.return_value = {}, {}
    orders = [[], [pb.TriggerCheckpoint(checkpoint=7)], []]
    parts.mailbox.take.side_effect = lambda: orders.pop(0)

    def answers() -> list[pa.RecordBatch]:
        parts.chain.done = not orders
        return []

    parts.chain.more.side_effect = answers
    task_of(parts).run()
    assert parts.chain.more.call_count == 3
    parts.chain.on_barrier.assert_called_once_with(7)
    parts.sources.poll.assert_not_called()
    parts.edges.take.assert_not_called()
