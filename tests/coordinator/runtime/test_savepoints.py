"""What is told of savepoints and streams."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.checkpoint.manifest import Manifest, NodeRecord, TaskSnapshot
from fabric.checkpoint.names import NamedStream, NameRecord
from fabric.checkpoint.savepoint import PLAN_CHARS_MAX
from fabric.clients.job.savepoint import SavepointInfo, StreamInfo
from fabric.clients.job.status import where_from
from fabric.control import control_pb2 as pb
from fabric.coordinator.rest.models import Savepoint, Stream
from fabric.coordinator.runtime.savepoints import shortened_plan, stream_told, told
from tests.checkpoint.conftest import FILE, kept

TASK = TaskSnapshot("sums", 0, 0, range(4), (FILE,), n_rows=1_200)
MANIFEST = Manifest(
    job="j", checkpoint=5, epoch=2, run=1, wall_us=7,
    tasks=(TASK, replace(TASK, task=1, n_rows=34)), nodes=(NodeRecord("sums", "kind", "text"),),
)  # fmt: skip
UNCOUNTED = replace(MANIFEST, tasks=(TASK, replace(TASK, task=1, n_rows=None)))


def test_a_long_plan_is_cut_and_says_so() -> None:
    long = shortened_plan("x" * (PLAN_CHARS_MAX + 7))
    assert len(long) <= PLAN_CHARS_MAX
    assert long.endswith("x\n... and 107 more characters")
    assert shortened_plan("y" * PLAN_CHARS_MAX) == "y" * PLAN_CHARS_MAX


@pytest.mark.parametrize(
    ("manifest", "n_rows", "shown"), [(MANIFEST, 1_234, "1 state, 1,234 rows, 20 bytes"),
                                      (UNCOUNTED, None, "1 state, 20 bytes")],
)  # fmt: skip
def test_rows_are_told_when_all_tasks_have_counted_theirs(
    manifest: Manifest, n_rows: int | None, shown: str
) -> None:
    savepoint = told(kept(manifest))
    stream = stream_told(NamedStream("clicks", NameRecord("clicks", "j"), manifest))
    assert shown in repr(SavepointInfo.of(savepoint))
    assert shown in repr(StreamInfo.of(stream))
    assert (Savepoint.of(savepoint).rows, Stream.of(stream).rows) == (n_rows, n_rows)


@pytest.mark.parametrize(("states", "rows", "says"), [
    (3, 1_234_567, "3 states, 1.2 M rows, 31.9 kB"), (1, 1, "1 state, 1 row, 31.9 kB"),
    (3, None, "3 states, 31.9 kB"), (0, 0, "no states, 31.9 kB"),
])  # fmt: skip
def test_where_a_stream_goes_on(states: int, rows: int | None, says: str) -> None:
    origin = pb.StreamOrigin(name="clicks", checkpoint=4, states=states, rows=rows, bytes=31_900)
    assert (where_from(pb.JobStatus(stream=origin)) or "").endswith(f", {says}")
