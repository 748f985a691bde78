"""Checkpoints of groups in memory: what they write, what a failure leaves, what goes when."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import DataError, StorageError
from fabric.event_time import END_OF_TIME
from fabric.operators.contract import Context, Operator
from fabric.operators.snapshots import N_KEY_GROUPS, with_key_groups
from fabric.operators.streams import deltas
from fabric.operators.streams.deduplicate import deduplicate_operator
from fabric.operators.streams.deltas import Deltas, Hot, Make
from fabric.operators.streams.top_n import top_n_operator
from fabric.plan.event_windows import Count, Cumulative, Session, Sliding, Trigger, Tumbling
from fabric.plan.expr import Column, SortKey
from fabric.plan.nodes import Deduplicate, StageInput, TopN
from fabric.plan.schema import schema_of
from fabric.testing.operators import (
    Clock,
    Kept,
    Rows,
    Step,
    Until,
    check_operator,
    run_straight,
)
from tests.operators.streams.test_windows import aggregate, closing, maker
from tests.support.disk import mounted
from tests.support.little_memory import below
from tests.support.stream_model import SCHEMA, Row, batch_of

ALL = range(N_KEY_GROUPS)


@dataclass(slots=True)
class Shelf(Kept):
    """What one checkpoint stored, and by which contents later ones know it."""

    contents: dict[str, int] = field(default_factory=dict)

    def link(self, name: str, path: Path, content: str) -> None:
        """See `SnapshotWriter`."""
        Kept.link(self, name, path, content)
        self.contents[content] = path.stat().st_size


def stored(operator: Operator) -> Shelf:
    """The operator's checkpoint."""
    shelf = Shelf()
    operator.on_barrier(1).write(shelf)
    return shelf


def counted(keys: Sequence[int], at: int = 0) -> pa.RecordBatch:
    """A row a key, in the window from `at` on."""
    n = pa.array(np.zeros(len(keys), np.int64))
    batch = batch_of([Row("a", 1, at, 0)]).take(n)
    texts = pa.array([f"key {i}" for i in keys])
    return batch.set_column(SCHEMA.get_field_index("k"), SCHEMA.field("k"), texts)


@pytest.fixture
def windows() -> Iterator[Operator]:
    """Tumbling windows in memory, whose checkpoints have files."""
    with below(None) as context:
        operator = maker(aggregate(Tumbling(10)))()
        operator.open(context)
        yield operator
        operator.close()


def ended(operator: Operator) -> int:
    """How many windows end with the input."""
    return sum(rows.num_rows for rows in operator.on_watermark(END_OF_TIME))


def restored(shelf: Kept) -> Operator:
    """A new operator with what was stored."""
    operator = maker(aggregate(Tumbling(10)))()
    operator.open(Context())
    operator.restore([shelf], ALL)
    return operator


def test_a_checkpoint_writes_what_changed_since_the_one_before(windows: Operator) -> None:
    windows.on_batch(0, counted(range(10_000)))
    first = stored(windows)
    windows.on_batch(0, counted(range(100)))
    second = stored(windows)
    (whole,), new = first.contents.values(), second.contents.keys() - first.contents.keys()
    assert first.contents.items() < second.contents.items()
    assert sum(second.contents[each] for each in new) < whole / 50
    assert stored(windows).contents == second.contents
    assert ended(restored(second)) == 10_000


def test_groups_that_ended_are_not_restored(windows: Operator) -> None:
    windows.on_batch(0, counted(range(1_000)))
    windows.on_batch(0, counted(range(10), at=10))
    stored(windows)
    assert sum(rows.num_rows for rows in windows.on_watermark(10)) == 1_000
    windows.on_batch(0, counted(range(5), at=20))
    found = restored(stored(windows))
    found.on_watermark(10)
    assert ended(found) == ended(windows) == 15


def test_a_checkpoint_counts_rows_and_not_what_its_files_have(windows: Operator) -> None:
    windows.on_batch(0, counted(range(10_000)))
    assert windows.on_barrier(1).write(Kept()) == 10_000
    windows.on_batch(0, counted(range(100)))
    windows.on_batch(0, counted(range(10), at=10))
    assert windows.on_barrier(2).write(Kept()) == 10_010
    windows.on_watermark(10)
    assert windows.on_barrier(3).write(Kept()) == 10


@pytest.mark.parametrize("room", [None, 100_000])
def test_rows_of_groups_count_wherever_they_are(room: int | None) -> None:
    with below(room) as context:
        operator = top_n_operator(BEST, SCHEMA, schema_of(BEST))
        operator.open(context)
        for _ in range(3):  # the best two rows of each key are kept
            operator.on_batch(0, counted(range(2_000)))
        assert room is None or operator.counts()["state_evicted_rows"] > 0
        assert operator.on_barrier(1).write(Kept()) == 4_000
        operator.close()


def test_what_was_not_written_comes_with_the_next_one(windows: Operator) -> None:
    windows.on_batch(0, counted(range(100)))
    windows.on_barrier(1)
    windows.on_batch(0, counted(range(100, 110)))
    windows.on_barrier(2)
    windows.on_batch(0, counted(range(110, 120)))
    assert ended(restored(stored(windows))) == 120


def test_files_go_with_the_last_checkpoint_that_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deltas, "FEW_BYTES", 0)
    operator = maker(aggregate(Tumbling(10)))()
    operator.open(Context(folder=tmp_path / "own"))
    folder = tmp_path / "own" / "hot"
    operator.on_batch(0, counted(range(100)))
    held = [operator.on_barrier(1)]
    counts = list[int]()
    for number in range(10):  # 30 of 100 groups change each time: soon it is whole again
        operator.on_batch(0, counted(range(number * 10, number * 10 + 30)))
        held = [operator.on_barrier(2)]
        held[0].write(Kept())
        gc.collect()
        counts.append(len(list(folder.iterdir())))
    assert max(counts) <= 4
    assert counts.count(1) >= 2
    operator.close()
    assert list(folder.iterdir())  # the last snapshot has them
    held.clear()
    gc.collect()
    assert not list(folder.iterdir())


def test_there_are_never_many_files(windows: Operator) -> None:
    windows.on_batch(0, counted(range(10_000)))
    most = 0
    for number in range(deltas.MOST_FILES + 10):
        windows.on_batch(0, counted(range(number, number + 1)))
        most = max(most, len(stored(windows).contents))
    assert most == deltas.MOST_FILES
    assert ended(restored(stored(windows))) == 10_000


def test_few_groups_are_one_file(tmp_path: Path) -> None:
    operator = maker(aggregate(Tumbling(10)))()
    operator.open(Context(folder=tmp_path / "own"))
    operator.on_batch(0, counted(range(100)))
    stored(operator)
    operator.on_batch(0, counted(range(1)))
    shelf = stored(operator)
    assert shelf.names() == ["facts.json", "groups.arrow"]
    operator.close()


def test_a_full_disk_fails_one_checkpoint_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deltas, "FEW_BYTES", 0)
    with mounted(tmp_path / "disk", "size=2m") as disk:
        operator = maker(aggregate(Tumbling(10)))()
        operator.open(Context(folder=disk / "own"))
        operator.on_batch(0, counted(range(100)))
        stored(operator)
        filler = disk / "filler"
        filler.write_bytes(bytes(1_900_000))
        operator.on_batch(0, counted(range(100, 100_000)))
        with pytest.raises(StorageError, match=r"hot/.* can't be written: No space left on"):
            stored(operator)
        filler.unlink()
        operator.on_batch(0, counted(range(100_000, 100_010)))
        with pytest.raises(StorageError, match=r"hot/.* can't be written: No space left on"):
            stored(operator)  # it needs more than there is
        monkeypatch.setattr(deltas, "MOST_FILES", 0)
        monkeypatch.setattr(deltas, "FEW_BYTES", 1 << 40)
        assert ended(restored(stored(operator))) == 100_010
        operator.close()


def test_a_checkpoint_of_another_plan_is_refused(windows: Operator) -> None:
    windows.on_batch(0, counted(range(10)))
    shelf = stored(windows)
    other = maker(aggregate(None))()
    other.open(Context())
    with pytest.raises(DataError, match=r"snapshot of groups-.* has the columns .* plan needs"):
        other.restore([shelf], ALL)


WINDOWED = {
    "tumbling": aggregate(Tumbling(10)),
    "sliding": aggregate(Sliding(12, 4)),
    "closing": closing(2),
    "count": aggregate(Count(3)),
    "running": aggregate(None),
    "now and then": aggregate(None, trigger=Trigger(early_us=20)),
    "changing": aggregate(Tumbling(10), trigger=Trigger(count=3, late="each"), lateness_us=5),
    "by the clock": aggregate(Cumulative(12, 4), trigger=Trigger(early_us=20)),
    "session": aggregate(Session(3)),
    "session by the clock": aggregate(Session(3), trigger=Trigger(early_us=20)),
}


@pytest.mark.parametrize("name", WINDOWED)
def test_each_operator_goes_on_from_changes(name: str) -> None:
    node, rng = WINDOWED[name], Random(3)
    steps: list[Step] = [Clock(0)]
    for at in range(24):
        now = at * 2
        rows = [Row(rng.choice("abcdefgh"), rng.randint(0, 3), now + rng.randint(0, 4), now - 2)
                for _ in range(rng.randint(1, 3))]  # fmt: skip
        steps.append(Rows(batch_of(rows)))
        if at % 3 == 2:
            steps.append(Until(now - 2) if at % 2 else Clock(at * 10))
    expected = run_straight(maker(node), steps).multisets()
    with below(None) as context:
        keys = ["k", "t"] if name == "closing" else ["k"]
        abort_at = range(0, len(steps), 2)
        found = check_operator(maker(node), steps, keys=keys, abort_at=abort_at, context=context)
    assert found.multisets() == expected


BEST = TopN(
    StageInput(0, SCHEMA), (Column("k"),), (SortKey(Column("v"), True, True),), 2, kinds=True
)


@pytest.mark.parametrize(("make", "room"), [
    (maker(aggregate(None)), 150_000),
    (lambda: top_n_operator(BEST, SCHEMA, schema_of(BEST)), 250_000),
], ids=["running", "top-n"])  # fmt: skip
def test_groups_go_below_memory_between_checkpoints_of_changes(
    make: Callable[[], Operator], room: int
) -> None:
    rng = np.random.default_rng(5)
    steps = [Rows(counted(rng.integers(0, 2_000, 100))) for _ in range(40)]
    expected = run_straight(make, steps).multisets()
    with below(room) as context:
        operator, most = make(), 0
        operator.open(context)
        for step in steps:
            operator.on_batch(0, step.batch)
            most = max(most, len(stored(operator).contents))
        assert operator.counts()["state_evicted_rows"] > 0
        assert most > 2
        operator.close()
        found = check_operator(make, steps, keys=["k"], abort_at=range(0, 40, 3), context=context)
    assert found.multisets() == expected


def test_keys_from_before_the_first_time_rest_from_then_on() -> None:
    first = Deduplicate(StageInput(0, SCHEMA), (Column("k"),), ttl_us=15)
    some = Rows(counted(np.arange(3)))
    steps = [some, Rows(counted(np.arange(3, 5))), Clock(100), Clock(110), some, Clock(130), some]
    with below(None) as context:
        found = check_operator(
            lambda: deduplicate_operator(first, SCHEMA, schema_of(first)), steps, keys=["k"],
            context=context,
        )  # fmt: skip
    assert sum(rows.num_rows for rows in found.rows) == 8


@given(
    st.lists(
        st.tuples(st.sampled_from("cccggns"), st.sets(st.integers(0, 9), max_size=5)), max_size=40
    )
)
def test_what_is_restored_is_what_was_last_seen(steps: list[tuple[str, set[int]]]) -> None:
    with below(None) as context:
        groups = Groups(context.folder)
        for number, (what, keys) in enumerate(steps):
            groups.step(what, sorted(keys), number)
        groups.deltas.close()


class Groups:
    """Groups whose numbers are their keys' places, with all the things that happen to such."""

    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])

    def __init__(self, folder: Path | None) -> None:
        grouped = partial(with_key_groups, keys=["k"])
        self.deltas = Deltas("rows", self.schema, ["k"], grouped, folder)
        self.keys: list[int | None] = []
        self.values: dict[int, int] = {}

    def step(self, what: str, keys: list[int], number: int) -> None:
        match what:
            case "c":  # change, or begin
                for key in keys:
                    self.values[key] = number
                    if key not in self.keys:
                        free = self.keys.index(None) if None in self.keys else len(self.keys)
                        self.keys[free : free + 1] = [key]
                self.deltas.changed(np.array([self.keys.index(key) for key in keys], np.int64))
            case "g":  # go
                there = [self.keys.index(key) for key in keys if key in self.keys]
                self.deltas.gone(np.array(there, np.int64), self.named)
                for at in there:
                    del self.values[self.keys[at] or 0]
                    self.keys[at] = None
            case "n":  # get new numbers
                self.keys = [self.keys[i] for i in self.ids()[::-1]]
                self.deltas.anew()
            case _:
                shelf = Kept()
                changes = Hot(self.ids(), len(self.values), 1, self.rows, self.whole)
                assert self.deltas.snapshot(changes, {}).write(shelf) == len(self.values)
                found = list(self.deltas.restored([shelf], ALL))
                rows = [row for batch in found for row in batch.to_pylist()]
                assert {row["k"]: row["v"] for row in rows} == self.values
                assert len(rows) == len(self.values)

    def ids(self) -> np.ndarray:
        return np.array([i for i, key in enumerate(self.keys) if key is not None], np.int64)

    def rows(self, ids: np.ndarray) -> pa.RecordBatch:
        keys = [self.keys[i] for i in ids]
        values = [self.values[key or 0] for key in keys]
        return pa.record_batch({"k": keys, "v": values}, self.schema)

    def named(self, ids: np.ndarray) -> pa.RecordBatch:
        return self.rows(ids).select(["k"])

    def whole(self) -> Make:
        rows = self.rows(self.ids())
        return lambda: with_key_groups(rows, ["k"])
