"""States that an agent reads for clients: which files it makes, when they go, what it tries again.

Checkpoints are stand-ins: what is read from real ones is in `tests/integration`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from fabric.agent import kept_states, state_cuts
from fabric.agent.kept_states import READS_MAX, WRITER, KeptStates
from fabric.agent.opened_snapshots import OpenedSnapshots
from fabric.agent.state_cuts import IDLE_S, Cut, Cuts
from fabric.control import control_pb2 as pb
from fabric.errors import DataError, NotFoundError, StorageError
from fabric.flight.ticket import DatasetRequest, Part
from fabric.io.dataset.access import DatasetFiles
from fabric.io.dataset.views import KEPT_S
from fabric.operators.contract import KeptState
from fabric.plan.codec import encode
from fabric.plan.expr import Column
from fabric.plan.nodes import Deduplicate, Plan, StageInput
from fabric.state.opened import opened
from fabric.testing.operators import Kept

SCHEMA = pa.schema([("k", pa.int64())])
PATH = ("state", "job-1", "counts", "groups")
ROWS = pa.record_batch({"k": list(range(100))}, schema=SCHEMA)

Read = Callable[[], Iterator[pa.RecordBatch]]


class Asked:
    """In place of a snapshot that was opened: no answer is remembered."""

    def answer(self, _: Any, find: Read) -> list[pa.RecordBatch]:
        return list(find())


def cut_of(
    checkpoint: int, n_tasks: int = 1, read: Read = lambda: iter([ROWS]), n_bytes: int = 8
) -> Cut:
    task = SimpleNamespace(files=("f",), key_groups=range(1 << 15), n_bytes=n_bytes)
    node: Any = SimpleNamespace(
        node=SimpleNamespace(path="counts"),
        rows=lambda *_: read(), rows_of_keys=lambda *_: read(),
    )  # fmt: skip
    storage: Any = SimpleNamespace(reader=lambda *_: None)
    manifest: Any = SimpleNamespace(of_node=lambda _: [task] * n_tasks)
    snapshots: Any = SimpleNamespace(of=lambda *_: Asked())
    state = KeptState("groups", SCHEMA, ("k",))
    return Cut("job-1", checkpoint, node, state, storage, manifest, snapshots)


class Newest:
    """In place of `Cuts`: the newest checkpoint is what the test says."""

    def __init__(self, cut: Cut) -> None:
        self.cut = cut

    def read(self, _: Any, work: Callable[[Cut], Any]) -> Any:
        return work(self.cut)

    def tidy(self, now: float) -> None:
        pass

    def forget(self, cut: Cut) -> None:
        pass


@pytest.fixture
def files(tmp_path: Path) -> DatasetFiles:
    return DatasetFiles(tmp_path, "a")


def states_of(files: DatasetFiles, cut: Cut) -> tuple[KeptStates, Newest]:
    states = KeptStates(None, files.native, "a", files.root)  # type: ignore[arg-type]
    newest: Any = Newest(cut)
    states.cuts = newest
    files.views.on_state = states.wanted
    return states, newest


def n_rows(files: DatasetFiles, cut: Cut, partition: int = 0) -> int:
    part = Part(cut.transaction, WRITER, 0)
    asked = DatasetRequest(
        name=cut.name, version=cut.checkpoint, partition=partition, parts=(part,)
    )
    return sum(batch.num_rows for batch in files.read(asked))


def there(files: DatasetFiles) -> list[int]:
    """The checkpoints of which there are files."""
    names = {path.parent.name for path in files.root.rglob("*.manifest")}
    return sorted(int(name.rpartition(".")[2]) for name in names)


def test_files_go_when_nobody_asks_and_come_again(files: DatasetFiles) -> None:
    states, newest = states_of(files, cut_of(1))
    states.find(PATH)
    assert (n_rows(files, newest.cut), there(files)) == (100, [1])
    states.tidy(time.monotonic() + KEPT_S + 1)  # the newest may be asked for again
    assert there(files) == [1]
    states.tidy(time.monotonic() + IDLE_S + 1)
    assert not list(files.root.iterdir())
    with pytest.raises(NotFoundError, match="not read here any more; ask get_flight_info again"):
        n_rows(files, newest.cut)
    states.find(PATH)
    assert n_rows(files, newest.cut) == 100


def test_an_older_checkpoint_that_comes_late_makes_no_newer_one_go(files: DatasetFiles) -> None:
    old, new = cut_of(1), cut_of(2)
    states, newest = states_of(files, old)
    states.find(PATH)
    newest.cut = new
    states.find(PATH)
    newest.cut = old  # somebody had heard of it before
    states.find(PATH)
    assert (n_rows(files, old), n_rows(files, new)) == (100, 100)
    states.tidy(time.monotonic() + KEPT_S + 1)
    assert there(files) == [2]
    newest.cut = new
    states.find(PATH)
    assert n_rows(files, new) == 100


def test_a_state_of_many_rows_becomes_files_as_they_are_read(
    files: DatasetFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_states, "HELD_BYTES", ROWS.nbytes + 1)
    states, newest = states_of(files, cut_of(1, n_tasks=4))
    ((_, location),) = states.find(PATH)
    assert location.n_partitions == 4
    assert len(list(files.root.rglob("*.manifest"))) == 2
    assert [n_rows(files, newest.cut, partition) for partition in range(4)] == [100] * 4


def test_few_snapshots_are_read_at_once(files: DatasetFiles) -> None:
    left: list[int] = []

    def read() -> Iterator[pa.RecordBatch]:
        free = sum(states._reading.acquire(blocking=False) for _ in range(READS_MAX))
        for _ in range(free):
            states._reading.release()
        left.append(free)
        yield ROWS

    states, _ = states_of(files, cut_of(1, read=read))
    states.find(PATH)
    states.table(*PATH[1:])
    states.get(*PATH[1:], pa.table({"k": [1]}))
    assert left == [READS_MAX - 1] * 3


def test_no_more_tasks_are_read_than_the_first_rows_need(files: DatasetFiles) -> None:
    n_read: list[int] = []

    def read() -> Iterator[pa.RecordBatch]:
        n_read.append(1)
        yield ROWS

    states, _ = states_of(files, cut_of(1, n_tasks=4, read=read))
    assert states.table(*PATH[1:], limit=120).num_rows == 120
    assert len(n_read) == 2


def test_the_same_keys_are_looked_up_once_a_checkpoint(files: DatasetFiles, tmp_path: Path) -> None:
    n_read: list[int] = []

    def read() -> Iterator[pa.RecordBatch]:
        n_read.append(1)
        yield ROWS.slice(len(n_read), 1)

    snapshots = {number: opened(Kept(), tmp_path) for number in (1, 2)}
    cuts = [replace(cut_of(number, read=read), opened=SimpleNamespace(
        of=lambda *_, number=number: snapshots[number])) for number in (1, 2)]  # fmt: skip
    states, newest = states_of(files, cuts[0])

    def get(*keys: int) -> Any:
        _, rows = states.get(*PATH[1:], pa.table({"k": keys}))
        return pa.Table.from_batches(rows, SCHEMA)["k"].to_pylist()

    assert [get(1), get(1), get(2), get(1)] == [[1], [1], [2], [1]]
    newest.cut = cuts[1]
    assert [get(1), get(1)] == [[3], [3]]


# ---- which checkpoint


class Control:
    """Says each time what it is told to say next; the last of it again and again."""

    def __init__(self, *checkpoints: int) -> None:
        self.checkpoints, self.n_asked = list(checkpoints), 0

    def locate(self, _: pb.LocateRequest) -> pb.Locations:
        self.n_asked += 1
        number = self.checkpoints.pop(0) if len(self.checkpoints) > 1 else self.checkpoints[0]
        step = Deduplicate(StageInput(0, SCHEMA), (Column("k"),), path="seen")
        states = pb.StreamStates(
            job_id="job-1", folder="/kept", state="job-1", checkpoint=number,
            fragments=[encode(Plan(step))],
        )  # fmt: skip
        return pb.Locations(states=[states])


class Manifests:
    """The manifests of a folder; those of `gone` checkpoints were removed."""

    def __init__(self, *gone: int, damaged: bool = False) -> None:
        self.gone, self.damaged = gone, damaged
        self.newest, self.is_away = 0, False

    def may_have_after(self, _: str, checkpoint: int) -> bool:
        if self.is_away:
            raise StorageError("the checkpoint folder is not there")
        return self.newest > checkpoint

    def load(self, _: str, checkpoint: int, __: Any) -> Any:
        if self.damaged:
            raise DataError(f"manifest of {checkpoint} is damaged")
        if checkpoint in self.gone:
            raise NotFoundError(f"there is no checkpoint {checkpoint}")
        return SimpleNamespace(checkpoint=checkpoint)


def cuts_of(control: Control, manifests: Manifests, monkeypatch: pytest.MonkeyPatch) -> Cuts:
    monkeypatch.setattr(state_cuts, "storage_at", lambda _: manifests)
    return Cuts(control, OpenedSnapshots(Path()))  # type: ignore[arg-type]


SEEN = ("job-1", "seen", "keys")


def test_a_manifest_that_is_removed_after_it_was_named_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuts = cuts_of(Control(1, 2), Manifests(1), monkeypatch)
    assert cuts.read(SEEN, lambda cut: cut.checkpoint) == 2
    cuts = cuts_of(Control(1, 2), Manifests(1), monkeypatch)
    assert [cut.checkpoint for cut in cuts.all("job-1")] == [2]
    cuts = cuts_of(Control(1), Manifests(1), monkeypatch)
    with pytest.raises(NotFoundError, match="there is no checkpoint 1"):
        cuts.read(SEEN, lambda cut: cut.checkpoint)


def test_a_list_says_what_is_wrong_with_the_job_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuts = cuts_of(Control(1), Manifests(damaged=True), monkeypatch)
    with pytest.raises(DataError, match="manifest of 1 is damaged"):
        cuts.all("job-1")
    assert cuts.all() == []
    assert cuts_of(Control(0), Manifests(), monkeypatch).all("job-1") == []


def test_the_coordinator_is_asked_when_there_may_be_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    control, manifests = Control(1, 1, 2, 3, 4), Manifests()
    cuts = cuts_of(control, manifests, monkeypatch)
    monkeypatch.setattr(state_cuts, "FRESH_S", 3600.0)

    def read() -> tuple[int, int]:
        return cuts.read(SEEN, lambda cut: cut.checkpoint), control.n_asked

    assert [read(), read()] == [(1, 1), (1, 1)]
    manifests.newest = 2  # its manifest is there, and it is not complete yet
    assert [read(), read(), read()] == [(1, 2), (2, 3), (2, 3)]
    manifests.is_away = True
    assert read() == (3, 4)
    manifests.is_away = False
    assert read() == (3, 4)
    manifests.gone = (3,)
    cuts._manifests.clear()
    assert read() == (4, 5)
    monkeypatch.setattr(state_cuts, "FRESH_S", -1.0)
    assert read() == (4, 6)
    cuts.tidy(time.monotonic())
    assert not cuts._answers


def test_manifests_of_jobs_that_nobody_asks_about_go(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts = cuts_of(Control(1), Manifests(), monkeypatch)
    cuts.all("job-1")
    cuts.tidy(time.monotonic() + IDLE_S - 60)
    assert len(cuts._manifests) == 1
    cuts.tidy(time.monotonic() + IDLE_S + 1)
    assert not cuts._manifests
