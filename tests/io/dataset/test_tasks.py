"""Datasets from inside tasks: splits, reading, sinks, through real owners."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from fabric.errors import ConfigError, DataError, InternalError, NotFoundError, PeerLostError
from fabric.ids import TaskId
from fabric.io import sinks, sources
from fabric.io.dataset.access import current, set_default, use
from fabric.plan.sources import DatasetSource
from fabric.plan.targets import DatasetTarget
from tests.support.flight_rig import FlightRig

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
SOURCE = DatasetSource("d")


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[FlightRig]:
    with FlightRig(tmp_path) as rig, use(rig.access()):
        yield rig


def table(begin: int, n: int) -> pa.Table:
    return pa.table({"k": range(begin, begin + n), "v": ["x"] * n}, SCHEMA)


def write(target: DatasetTarget, job: str, tables: list[pa.Table]) -> list[bytes]:
    """Each table by a task of its own; the handles."""
    handles = []
    for n, rows in enumerate(tables):
        sink = sinks.open_sink(target, SCHEMA, TaskId(job, 2, n), len(tables))
        for batch in rows.to_batches(max_chunksize=70):
            sink.write(batch)
        handles.append(sink.prepare())
    return handles


def read() -> pa.Table:
    splits = sources.enumerate_splits(SOURCE, 3)
    schema = sources.source_schema(SOURCE)
    batches = [b for s in splits for b in sources.read_split(SOURCE, schema, s)]
    return pa.Table.from_batches(batches, schema).sort_by("k")


def test_tasks_write_one_version_and_read_it(rig: FlightRig) -> None:
    target = DatasetTarget("d", keys=("k",), n_partitions=3)
    handles = write(target, "job-1", [table(0, 100), table(100, 1), table(101, 0)])
    with pytest.raises(NotFoundError, match="no dataset 'd'"):
        sources.source_schema(SOURCE)
    sinks.publish(handles)
    sinks.publish(handles)
    assert read() == table(0, 101)
    splits = sources.enumerate_splits(SOURCE, 1)
    assert [(s.uri, s.n_rows) for s in splits] == [("a0", 34), ("a1", 34), ("a0", 34)]
    (values,) = {
        tuple(b.schema.names)
        for b in sources.read_split(SOURCE, SCHEMA, splits[0], columns=["v", "k"])
    }
    assert values == ("v", "k")
    sinks.abandon(handles)  # too late: it is committed
    assert read() == table(0, 101)


def test_modes(rig: FlightRig) -> None:
    sinks.publish(write(DatasetTarget("d"), "job-1", [table(0, 5)]))
    with pytest.raises(ConfigError, match="exists already; use mode 'append' or 'overwrite'"):
        write(DatasetTarget("d"), "job-2", [table(0, 5)])
    sinks.publish(write(DatasetTarget("d", mode="append"), "job-3", [table(5, 5)]))
    assert read() == table(0, 10)
    before = sources.enumerate_splits(SOURCE, 1)
    sinks.publish(write(DatasetTarget("d", mode="overwrite"), "job-4", [table(0, 1)]))
    assert read() == table(0, 1)
    old = [b for s in before for b in sources.read_split(SOURCE, SCHEMA, s)]
    assert sum(b.num_rows for b in old) == 10


def test_abandoned_tasks_leave_nothing(rig: FlightRig) -> None:
    handles = write(DatasetTarget("d"), "job-1", [table(0, 100)])
    sink = sinks.open_sink(DatasetTarget("d"), SCHEMA, TaskId("job-1", 2, 7), 9)
    sink.write(table(0, 10).to_batches()[0])
    sink.abandon()
    sink.abandon()
    sinks.abandon(handles)
    sinks.abandon(handles)
    with pytest.raises(NotFoundError):
        read()
    assert not [p for f in rig.files.values() for p in f.root.rglob("*.*") if p.is_file()]


def test_a_second_attempt_of_a_task_is_the_one_published(rig: FlightRig) -> None:
    write(DatasetTarget("d"), "job-1", [table(0, 100)])
    again = sinks.open_sink(DatasetTarget("d"), SCHEMA, TaskId("job-1", 2, 0, attempt=1), 1)
    again.write(table(7, 3).to_batches()[0])
    sinks.publish([again.prepare()])
    assert read() == table(7, 3)


def test_versions_and_replaced_columns(rig: FlightRig) -> None:
    sinks.publish(write(DatasetTarget("d"), "job-1", [table(0, 5)]))
    with pytest.raises(NotFoundError, match="at version 1, version 7 is not kept"):
        sources.source_schema(DatasetSource("d", 7))
    (split, _) = sources.enumerate_splits(DatasetSource("d", 1), 1)
    with pytest.raises(DataError, match="replaced by one with other columns"):
        list(sources.read_split(SOURCE, pa.schema([("x", pa.int8())]), split))


def test_a_lost_owner_is_named(rig: FlightRig) -> None:
    sinks.publish(write(DatasetTarget("d"), "job-1", [table(0, 5)]))
    rig.control.addresses = {"a0": rig.address()}
    rig.control.push(full=True, datasets=rig.control.catalogue.all())
    with pytest.raises(PeerLostError, match="agent a1 owns partitions of dataset 'd'"):
        read()


def test_outside_of_tasks_there_are_no_datasets(rig: FlightRig) -> None:
    access = rig.access()
    set_default(access)
    try:
        assert current() is not access  # the thread's own comes first
    finally:
        set_default(None)


def test_without_access() -> None:
    with pytest.raises(InternalError, match="only be read and written inside a fabric's task"):
        current()
    with pytest.raises(InternalError):
        sources.source_schema(SOURCE)
