"""Rows on the disk: the way over while somebody reads, damage, full disks, files that go."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.shuffle.store.budget import Budget, Share
from fabric._cython.shuffle.store.store import Store, Stream
from fabric._cython.shuffle.wire import headers
from fabric.errors import PartitionLostError, StorageError
from tests.support.arrays import examples

N_PARTITIONS, BATCH_ROWS, SMALL_ROWS = 3, 20_000, 200
KINDS = ["plain", "lz4", "dictionary", "broadcast"]


def offsets_of(n_rows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([0, n_rows // 4, n_rows // 4, n_rows], np.int64)


def rows_of(kind: str, first: int, n_rows: int = BATCH_ROWS) -> pa.RecordBatch:
    numbers = pa.array(np.arange(first, first + n_rows))
    texts = pa.array([f"text {n}" for n in range(100)] * (n_rows // 100))
    return pa.record_batch(
        {"a": numbers, "s": texts.dictionary_encode() if kind == "dictionary" else texts}
    )


def write(
    store: Store, kind: str, n_batches: int, job: str = "job", n_rows: int = BATCH_ROWS
) -> None:
    batches = [rows_of(kind, n * n_rows, n_rows) for n in range(n_batches)]
    codec = "lz4" if kind == "lz4" else ""
    store.begin(job, 0, batches[0].schema, N_PARTITIONS, 1, 0, codec)
    for batch in batches:
        store.append(job, 0, 1, 0, batch, None if kind == "broadcast" else offsets_of(n_rows))
    store.seal(job, 0, 1, 0)


def numbers_of(kind: str, partition: int, n_batches: int, n_rows: int = BATCH_ROWS) -> list[int]:
    first, last = offsets_of(n_rows)[partition : partition + 2].tolist()
    if kind == "broadcast":
        first, last = 0, n_rows
    return [n * n_rows + row for n in range(n_batches) for row in range(first, last)]


def rest(stream: Stream) -> list[tuple[Any, pa.RecordBatch]]:
    return [(headers.decode(h), batch) for some in iter(stream.take, []) for h, batch in some]


def values(batches: list[pa.RecordBatch]) -> list[int]:
    return [n for batch in batches for n in batch.column("a").to_pylist()]


def clear(store: Store, budget: Budget) -> None:
    """For a moment somebody else has all of the budget: everything goes to the disk."""
    share = Share(budget)
    share.take(budget.bytes_max)
    write(store, "plain", 1, "other")
    share.close()
    store.release("other")
    assert store.stored_bytes == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "life").mkdir()
    return tmp_path / "life"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_before", [0, 1, 2])
@pytest.mark.parametrize("reader", ["agent", "process", "task"])
def test_rows_that_move_under_a_reader(folder: Path, kind: str, n_before: int, reader: str) -> None:
    """What was given is not given again, and the same messages come as to those who read later."""
    budget, n = Budget(1_000_000), 9
    tight = Store("a", budget, [folder])
    write(tight, kind, n)

    def opened(of: Store, partition: int) -> Stream:
        if reader == "task":
            return of.batches("job", 0, partition, [(1, 0)])
        return of.open("job", 0, partition, [(1, 0)], reader == "agent")

    for partition in range(N_PARTITIONS):
        stream = opened(tight, partition)
        first = stream.take(n_before) if n_before else []
        clear(tight, budget)
        if reader == "task":
            batches = [b for _, b in first]
            batches += [b for some in iter(stream.take_batches, []) for b in some]
            assert values(batches) == numbers_of(kind, partition, n)
            continue
        moved = [(headers.decode(header), batch) for header, batch in first] + rest(stream)
        assert values([batch for _, batch in moved]) == numbers_of(kind, partition, n)
        later = rest(opened(tight, partition))
        assert [header for header, _ in later] == [header for header, _ in moved]
        assert [b.num_rows for _, b in later] == [b.num_rows for _, b in moved]


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_sealed_in_memory_has_the_same_messages_on_the_disk(
    folder: Path, kind: str
) -> None:
    budget = Budget(7_000_000)
    store = Store("a", budget, [folder])
    write(store, kind, 9)
    assert store.spilled_bytes == 0
    before = [rest(store.open("job", 0, p, [(1, 0)])) for p in range(N_PARTITIONS)]
    clear(store, budget)
    assert store.spilled_bytes > 0
    after = [rest(store.open("job", 0, p, [(1, 0)])) for p in range(N_PARTITIONS)]
    for old, new in zip(before, after, strict=True):
        assert [header for header, _ in new] == [header for header, _ in old]
        assert values([batch for _, batch in new]) == values([batch for _, batch in old])


def read_all(store: Store) -> Iterator[list[int]]:
    for partition in range(N_PARTITIONS):
        for checksums in (True, False):
            found = rest(store.open("job", 0, partition, [(1, 0)], checksums))
            yield values([batch for _, batch in found])


def expected(kind: str, n_batches: int, n_rows: int = BATCH_ROWS) -> list[list[int]]:
    return [numbers_of(kind, p, n_batches, n_rows) for p in range(N_PARTITIONS) for _ in range(2)]


@examples(0.5)
@given(
    data=st.data(),
    kind=st.sampled_from(KINDS),
    how=st.sampled_from(["flip", "cut", "remove", "swap"]),
)
def test_damage_is_found_before_a_row_is_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, kind: str, how: str
) -> None:
    folder = tmp_path_factory.mktemp("life")
    store = Store("agent-7", Budget(1), [folder])
    write(store, kind, 2, n_rows=SMALL_ROWS)
    path = data.draw(st.sampled_from(sorted(folder.iterdir())), "file")
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1), "at")
    match how:
        case "flip":
            damaged = bytearray(whole)
            damaged[at] ^= 1 << data.draw(st.integers(0, 7))
            path.write_bytes(damaged)
        case "cut":
            path.write_bytes(whole[:at])
        case "remove":
            path.unlink()
        case _:
            elsewhere = tmp_path_factory.mktemp("other")
            other = Store("agent-7", Budget(1), [elsewhere])
            write(other, kind, 2, "another", 2 * SMALL_ROWS)
            (mate,) = elsewhere.glob(f"*{path.suffix}")
            path.write_bytes(mate.read_bytes())
    found, error = [], None
    try:
        found = list(read_all(store))
    except PartitionLostError as lost:
        error = lost
    if error is None:
        assert how == "flip"  # between two messages
        assert found == expected(kind, 2, SMALL_ROWS)
        return
    text = str(error)
    assert (error.where.agent, error.where.task) == ("agent-7", "1#0")
    assert path.name in text
    assert str(folder) not in text
    assert "of edge 0 from task 1#0" in text


def test_a_full_disk_fails_the_writer_and_leaves_nothing(folder: Path) -> None:
    budget = Budget(1)
    store = Store("a", budget, [folder])
    store.fail_disk(errno.ENOSPC)
    with pytest.raises(StorageError, match=r"no room to spill 1 MiB .*\(No space left") as error:
        write(store, "plain", 1)
    assert str(folder.parent) not in str(error.value)
    assert "--spill" in str(error.value)
    assert error.value.where.agent == "a"
    store.discard("job", 0, 1, 0)
    assert (budget.used_bytes, list(folder.iterdir())) == (0, [])
    store.fail_disk(0)
    write(store, "plain", 1)
    assert list(read_all(store)) == expected("plain", 1)


def test_rows_already_spilled_outlive_a_disk_that_fills(folder: Path) -> None:
    store = Store("a", Budget(1), [folder])
    write(store, "plain", 2)
    store.fail_disk(errno.ENOSPC)
    with pytest.raises(StorageError):
        write(store, "plain", 1, "other")
    store.release("other")
    assert list(read_all(store)) == expected("plain", 2)


def test_folders_are_used_in_turn(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    store = Store("a", Budget(1), folders)
    write(store, "plain", 4)
    write(store, "plain", 4, "other")
    assert all(list(folder.glob("*.arrows")) for folder in folders)
    assert list(read_all(store)) == expected("plain", 4)
    store.release("job")
    store.release("other")
    assert [list(folder.iterdir()) for folder in folders] == [[], []]


def test_a_disk_without_room_to_spare_is_left_alone(folder: Path) -> None:
    store = Store("a", Budget(1), [folder], keep_free_bytes=1 << 62)
    with pytest.raises(StorageError, match="no room to spill"):
        write(store, "plain", 1)
    assert list(folder.iterdir()) == []


def test_a_stream_goes_on_when_its_job_is_released(folder: Path) -> None:
    store = Store("a", Budget(1), [folder])
    write(store, "plain", 4)
    stream = store.open("job", 0, 0, [(1, 0)])
    first = stream.take(1)
    store.release("job")
    found = values([batch for _, batch in first]) + values([batch for _, batch in rest(stream)])
    assert found == numbers_of("plain", 0, 4)
    del stream
    assert list(folder.iterdir()) == []


def test_begun_again_drops_the_files_of_before(folder: Path) -> None:
    store = Store("a", Budget(1), [folder])
    write(store, "plain", 4)
    names = set(folder.iterdir())
    write(store, "plain", 1)
    assert not names & set(folder.iterdir())
    assert list(read_all(store)) == expected("plain", 1)


def test_rows_that_a_task_keeps_stay_in_memory(folder: Path) -> None:
    budget = Budget(2_000_000)
    store = Store("a", budget, [folder])
    write(store, "plain", 1)
    kept = store.local("job", 0, 0, [(1, 0)])[0]
    assert (kept.n_rows, kept.spilled, kept.keep()) == (5000, False, True)
    write(store, "plain", 20, "other")
    assert not kept.spilled
    kept.let_go()
    clear(store, budget)
    assert kept.spilled
    assert not kept.keep()
    for _ in range(2):
        found = [b for some in iter(kept.batches().take_batches, []) for b in some]
        assert values(found) == numbers_of("plain", 0, 1)


def test_rows_from_elsewhere_lie_under_the_same_budget(folder: Path) -> None:
    budget = Budget(2_000_000)
    store = Store("a", budget, [folder])
    batches = [rows_of("dictionary", n * BATCH_ROWS) for n in range(20)]
    here = store.put_here("job", 0, 1, 0, batches[0].schema)
    for batch in batches:
        here.append(batch)
        assert budget.used_bytes <= budget.bytes_max
    here.seal()
    assert (here.n_rows, here.spilled) == (20 * BATCH_ROWS, True)
    found = [b for some in iter(here.batches().take_batches, []) for b in some]
    assert values(found) == list(range(20 * BATCH_ROWS))
    texts = [text for batch in found for text in batch.column("s").to_pylist()]
    assert texts == [f"text {n % 100}" for n in range(20 * BATCH_ROWS)]
    del here
    assert (budget.used_bytes, list(folder.iterdir())) == (0, [])


def test_who_wants_room_in_the_budget_makes_some(folder: Path) -> None:
    budget = Budget(2_000_000)
    store = Store("a", budget, [folder])
    write(store, "plain", 3)
    stream = Share(budget)
    stream.take(1)
    assert stream.reserve(1_500_000)
    assert store.spilled_bytes > 0
    stream.close()


def test_the_budget_holds_while_two_jobs_write(folder: Path) -> None:
    budget = Budget(3_000_000)
    store = Store("a", budget, [folder])
    most = rows_of("plain", 0).nbytes + 3_000_000
    jobs = ["job", "other"]
    for job in jobs:
        store.begin(job, 0, rows_of("plain", 0).schema, N_PARTITIONS, 1, 0)
    for n in range(20):
        for job in jobs:
            store.append(job, 0, 1, 0, rows_of("plain", n * BATCH_ROWS), offsets_of(BATCH_ROWS))
            assert budget.used_bytes <= 3_000_000 < most
    for job in jobs:
        store.seal(job, 0, 1, 0)
    assert list(read_all(store)) == expected("plain", 20)
    assert store.spilled_bytes + store.stored_bytes >= 2 * 20 * BATCH_ROWS * 8
