"""A task of a stream that ends amid an unaligned snapshot."""

from __future__ import annotations

from collections import deque
from unittest.mock import MagicMock

import pytest

from fabric.agent.stream_tasks.channels import Recording
from fabric.agent.stream_tasks.task import StreamTask
from fabric.control import control_pb2 as pb
from fabric.errors import CancelledError


def test_an_upload_waits_for_no_rows_in_flight_once_its_task_has_ended() -> None:
    """A cancel comes between the snapshot and its barrier, before the rows are recorded."""
    parts = MagicMock()
    parts.chain.done = parts.chain.has_more = False
    parts.chain.on_barrier.return_value = {}
    parts.sources.on_barrier.return_value = {}
    parts.mailbox.take.return_value = [pb.TriggerCheckpoint(checkpoint=3, unaligned=True)]
    parts.inbox.skip_alignment.return_value = [], Recording(3, frozenset(), 1)
    parts.inbox.recorded.return_value = None
    parts.outputs.mark.side_effect = CancelledError("the job was cancelled")
    names = (
        "chain", "sources", "channels", "inbox", "edges", "outputs", "uploads", "mailbox",
        "progress", "cancellation", "clock",
    )  # fmt: skip
    task = StreamTask(
        **{name: getattr(parts, name) for name in names}, node="counts", replayed=deque(),
        sink=None, results=None, lent=False, unreadable="",
    )  # fmt: skip
    with pytest.raises(CancelledError):
        task.run()
    (call,) = parts.uploads.store.call_args_list
    with pytest.raises(CancelledError, match="the task has ended"):
        call.args[0].inflight.result(timeout=10)
