"""The tasks of a view against a dict: now, at each checkpoint, after crashes, in other numbers."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from fabric.checkpoint.manifest import FINAL
from fabric.config import StateBackend
from fabric.control import control_pb2 as pb
from fabric.errors import DataError, NotFoundError, PartitionLostError, StorageError
from fabric.flight.locations import LocationTable
from fabric.flight.ticket import DatasetRequest, Part
from fabric.ids import TaskId
from fabric.io.dataset import views
from fabric.io.dataset.access import DatasetAccess, DatasetFiles, use
from fabric.io.sinks import view
from fabric.io.sinks.protocol import Handle, SinkStart
from fabric.operators.snapshots import hashes_of, key_groups
from fabric.plan.targets import DatasetTarget
from fabric.state.opened import group_of
from fabric.testing.operators import Kept
from tests.support.sampled import sampled

SCHEMA = pa.schema(
    [("k", pa.int64()), ("word", pa.dictionary(pa.int32(), pa.string())), ("n", pa.int64()),
     ("kind", pa.string())]
)  # fmt: skip
TARGET = DatasetTarget("v", ("k", "word"), mode="view", kind="kind")
STORED = view.stored_schema(TARGET, SCHEMA)
Key = tuple[int | None, str | None]
Model = dict[Key, int]


class Control:
    """Of a coordinator what showing a view needs: it notes what it is told."""

    def __init__(self) -> None:
        self.shown: list[pb.DatasetView] = []

    def dataset(self, request: pb.DatasetRequest) -> pb.DatasetReply:
        self.shown.append(request.view)
        return pb.DatasetReply()


class Job:
    """The tasks of one run after the other, all on one agent."""

    def __init__(self, folder: Path, state: StateBackend, n_tasks: int) -> None:
        self.folder, self.state, self.run = folder, state, 0
        self.files, self.control = DatasetFiles(folder / "files", "a"), Control()
        self.access = DatasetAccess(
            control=cast(Any, self.control), transport=cast(Any, None), locations=LocationTable(),
            agent_id="a", views=self.files.views,
        )  # fmt: skip
        self.checkpoint, self.kept = 0, list[Kept]()
        self.now: Model = {}
        self.at: dict[str, Model] = {}
        """What each version has that may be read."""
        self.done: Model | None = None
        self.begin(n_tasks)

    def begin(self, n_tasks: int) -> None:
        """A run, from the last complete checkpoint on."""
        self.run += 1
        self.at, self.now = {}, dict(self.done or {})
        with use(self.access):
            self.tasks = [
                view.open_view(
                    TARGET, view.Place(TaskId("job-1", 2, task, 0), n_tasks, self.run), SCHEMA,
                    SinkStart(scratch=self.folder / f"{self.run}-{task}", state=self.state),
                )
                for task in range(n_tasks)
            ]  # fmt: skip
        for task, writer in enumerate(self.tasks):
            if self.kept:
                writer.restore(self.kept, hashes_of(key_groups(task, n_tasks)))

    def crash(self, n_tasks: int) -> None:
        for writer in self.tasks:
            writer.abandon()
        self.begin(n_tasks)

    def write(self, rows: list[tuple[Key, int, str]]) -> None:
        for (k, word), n, kind in rows:
            if kind in ("-U", "-D"):
                self.now.pop((k, word), None)
            else:
                self.now[k, word] = n
        columns = {
            "k": [k for (k, _), _, _ in rows],
            "word": pa.array([w for (_, w), _, _ in rows], pa.string()).dictionary_encode(),
            "n": [n for _, n, _ in rows],
            "kind": [kind for _, _, kind in rows],
        }
        batch = pa.table(columns, schema=SCHEMA).to_batches()[0]
        for task, writer in enumerate(self.tasks):
            own = self.partitions(batch) == task
            writer.write(batch.filter(pa.array(own)))

    def partitions(self, batch: pa.RecordBatch) -> np.ndarray:
        hashes, _ = views.Keys(TARGET.keys, STORED).hashes(_plain(batch))
        groups = group_of(hashes)
        found: np.ndarray = (groups * np.uint64(len(self.tasks))) >> np.uint64(15)
        return found

    def take_checkpoint(self, *, last: bool = False, complete: bool = True) -> None:
        self.checkpoint += 1
        number = FINAL if last else self.checkpoint
        handles = [Handle.decode(writer.prepare(number)) for writer in self.tasks]
        kept = [Kept() for _ in self.tasks]
        for writer, each in zip(self.tasks, kept, strict=True):
            writer.snapshot().write(each)
        if complete:
            self.kept, self.done = kept, dict(self.now)
            for writer in [] if last else self.tasks:
                writer.on_complete(number)
            with use(self.access):
                view.publish(handles)
            self.at[self.control.shown[-1].transaction] = dict(self.now)

    def read(self, transaction: str) -> Model:
        name = "v.live" if transaction.endswith(".live") else "v"
        found: Model = {}
        for partition in range(len(self.tasks)):
            part = Part(transaction, "view", 0)
            for batch in self.files.read(DatasetRequest(name=name, version=1, partition=partition,
                                                        parts=(part,))):  # fmt: skip
                assert batch.schema == STORED
                assert (self.partitions(batch) == partition).all()
                rows = {(r["k"], r["word"]): r["n"] for r in batch.to_pylist()}
                assert len(rows) == len(batch)
                assert not rows.keys() & found.keys()
                found |= rows
        return found

    def get(self, keys: list[Key], *, live: bool) -> Model:
        columns = {"k": [k for k, _ in keys], "word": [word for _, word in keys]}
        table = pa.table(columns, schema=pa.schema([STORED.field("k"), STORED.field("word")]))
        place = self.partitions(table.to_batches()[0])
        found: Model = {}
        for partition in range(len(self.tasks)):
            own = table.filter(pa.array(place == partition))
            _, batches = self.files.views.get("v", partition, own, live=live)
            rows = [row for batch in batches for row in batch.to_pylist()]
            assert len({(r["k"], r["word"]) for r in rows}) == len(rows)
            found |= {(r["k"], r["word"]): r["n"] for r in rows}
        return found


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    names = [name for name in STORED.names if name in batch.schema.names]
    columns = [batch.column(name).cast(STORED.field(name).type) for name in names]
    return pa.record_batch(columns, schema=pa.schema([STORED.field(name) for name in names]))


KEYS: list[Key] = [(k, word) for k in (None, *range(6)) for word in (None, "a", "b")]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "FRESH_ROWS", 7)
    monkeypatch.setattr(view, "LIVE_S", 0.0)


@pytest.mark.parametrize("state", ["memory", "arrow"])
@pytest.mark.parametrize("seed", sampled(range(12), 4))
def test_it_is_a_dict_at_each_moment(tmp_path: Path, seed: int, state: StateBackend) -> None:
    chance = Random(seed)
    job = Job(tmp_path, state, chance.randint(1, 3))
    for step in range(60):
        match chance.choice(["write"] * 4 + ["checkpoint", "checkpoint", "read", "live", "crash"]):
            case "write":
                rows = chance.choices(KEYS, k=chance.randint(1, 12))
                kinds = chance.choices(["+I", "+U", "-U", "-D"], [4, 4, 1, 1], k=len(rows))
                job.write([(key, step * 100 + i, kinds[i]) for i, key in enumerate(rows)])
                assert job.get(KEYS + KEYS[::3], live=True) == job.now
            case "checkpoint":
                job.take_checkpoint(complete=chance.random() < 0.7)
            case "read" if job.at:
                transaction, model = chance.choice(list(job.at.items()))
                assert job.read(transaction) == model
            case "live":
                assert job.read(f"view.job-1.{job.run}.live") == job.now
            case "crash":
                job.crash(chance.randint(1, 3))
        if job.done is not None:
            assert job.get(KEYS + KEYS[::3], live=False) == job.done
    job.take_checkpoint(last=True)
    before = dict(job.at)
    for writer in job.tasks:
        writer.abandon()
    assert job.control.shown[-1].transaction == f"view.job-1.{job.run}.final"
    assert job.control.shown[-1].rows == len(job.now)
    newest = list(before)[-2:]  # who has just heard of the one before still reads it
    assert [job.read(transaction) for transaction in newest] == [before[each] for each in newest]
    assert job.get(KEYS + KEYS[::3], live=False) == job.now
    assert job.read(f"view.job-1.{job.run}.17000") == job.now  # of tasks that ended later


def test_versions_go_when_nobody_should_come_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path, "arrow", 1)
    monkeypatch.setattr(views, "KEPT_S", 0.0)
    monkeypatch.setattr(view, "KEPT_S", 0.0)
    for n in range(4):
        job.write([((n, "a"), n, "+I")])
        job.take_checkpoint()
        if n == 1:
            assert job.read("view.job-1.1.2") == job.now
    with pytest.raises(PartitionLostError, match="the view has gone on, or its job began again"):
        job.read("view.job-1.1.2")
    assert job.read("view.job-1.1.4") == job.now
    assert not list((tmp_path / "files" / "v").glob("view.job-1.1.2/*"))


def test_another_job_and_another_run_have_other_rows(tmp_path: Path) -> None:
    job = Job(tmp_path, "memory", 1)
    with pytest.raises(NotFoundError, match="view 'v' has no complete checkpoint yet"):
        job.get(KEYS, live=False)
    job.write([((1, "a"), 1, "+I")])
    job.take_checkpoint()
    for other in ("view.job-1.2.1", "view.job-2.1.1", "view.job-1.1.9"):
        with pytest.raises(PartitionLostError, match="read it again"):
            job.read(other)
    with pytest.raises(NotFoundError, match="partition 3 of view 'v' is not kept on this agent"):
        job.files.views.get("v", 3, pa.table({"k": [1], "word": ["a"]}))
    with pytest.raises(DataError, match="view 'v' knows rows by k: int64, word: string, got k"):
        job.files.views.get("v", 0, pa.table({"k": [1]}))


def test_a_full_disk_ends_a_read_and_not_the_view(tmp_path: Path) -> None:
    job = Job(tmp_path, "memory", 1)
    job.write([((1, "a"), 1, "+I")])
    job.take_checkpoint()
    job.files.native.fail_at("write", 28)
    with pytest.raises(StorageError, match="No space left"):
        job.read("view.job-1.1.1")
    job.files.native.fail_at("write", 0)
    assert job.read("view.job-1.1.1") == job.now


def test_a_view_that_is_closed_twice_forgets_its_rows(tmp_path: Path) -> None:
    job = Job(tmp_path, "arrow", 2)
    job.write([(key, 1, "+I") for key in KEYS])
    job.take_checkpoint()
    for writer in [*job.tasks, *job.tasks]:
        writer.abandon()
        writer.interrupt()
    assert [writer.counts()["state_cold_rows"] for writer in job.tasks] == [0, 0]
    with suppress(NotFoundError):
        job.get(KEYS, live=True)
        pytest.fail("nobody has the rows")
