"""A deposed coordinator never wins, in whatever order the requests of two arrive."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from obstore.store import MemoryStore

from fabric.checkpoint import pointer
from fabric.checkpoint.codec import seal_of
from fabric.checkpoint.manifest import Manifest, Seal
from fabric.checkpoint.object_layout import manifest_key
from fabric.checkpoint.pointer import (
    ConditionalStore,
    JobPointer,
    claim,
    commit,
    lead,
    read_pointer,
    write_pointer,
)
from fabric.errors import DataError, FabricError, FencedError, InternalError, StorageError
from fabric.object_store import Bucket

JOB = "job-1"


def manifest(checkpoint: int, epoch: int) -> Manifest:
    return Manifest(job=JOB, checkpoint=checkpoint, epoch=epoch, run=0, wall_us=1, tasks=())


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointer, "PAUSE_S", 0.0)


@pytest.fixture
def bucket() -> Bucket:
    return Bucket("s3://data/x", store=MemoryStore())


class Stepped:
    """A store of which each request waits for its turn; a lost answer is one that came late."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self.turn, self.waits = threading.Semaphore(0), threading.Semaphore(0)
        self.ended = False

    def _step(self, do: Callable[[], object]) -> object:
        self.waits.release()
        self.turn.acquire()
        return do()

    def read(self, key: str) -> tuple[bytes, str]:
        return self._step(lambda: self._bucket.read(key))  # type: ignore[return-value]

    def create(self, key: str, data: bytes) -> str | None:
        return self._step(lambda: self._bucket.create(key, data))  # type: ignore[return-value]

    def replace(self, key: str, data: bytes, tag: str) -> str | None:
        made = self._step(lambda: self._bucket.replace(key, data, tag))
        assert made is None or isinstance(made, str)
        return made


Outcome = Seal | JobPointer | FabricError
Act = Callable[[ConditionalStore], Seal | JobPointer]


def committing(made: Manifest) -> Act:
    return lambda store: commit(store, made)


def run(bucket: Bucket, given: list[Act], schedule: list[int]) -> tuple[list[Outcome], list[int]]:
    """Do both, one request after the other; what came of each, and whose turn each was."""
    stores = [Stepped(bucket) for _ in given]
    found: dict[int, Outcome] = {}

    def work(number: int) -> None:
        try:
            found[number] = given[number](stores[number])
        except FabricError as error:
            found[number] = error
        stores[number].ended = True
        stores[number].waits.release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(given))]
    for thread in threads:
        thread.start()
    for store in stores:
        store.waits.acquire()
    taken: list[int] = []
    while able := [number for number, store in enumerate(stores) if not store.ended]:
        step = len(taken)
        chosen = schedule[step] if step < len(schedule) and schedule[step] in able else able[0]
        taken.append(chosen)
        stores[chosen].turn.release()
        stores[chosen].waits.acquire()
    for thread in threads:
        thread.join()
    return [found[number] for number in range(len(given))], taken


def schedules(try_one: Callable[[list[int]], list[int]]) -> Iterator[int]:
    """Every order of the requests of two, each once, depth first."""
    open_ones: list[list[int]] = [[]]
    while open_ones:
        prefix = open_ones.pop()
        taken = try_one(prefix)
        yield len(taken)
        for step in range(len(prefix), len(taken)):
            if taken[step] == 0:
                open_ones.append([*taken[:step], 1])


@pytest.mark.parametrize("before", [[], [1]])
@pytest.mark.parametrize(("old", "new"), [(2, 2), (2, 3), (3, 2)])
def test_a_deposed_coordinator_never_wins(before: list[int], old: int, new: int) -> None:
    """Of epoch 1 and 2, each with a checkpoint; the one of epoch 2 is the newest in the end."""
    given = [committing(manifest(old, 1)), committing(manifest(new, 2))]
    deposed_first, fenced = 0, 0

    def try_one(schedule: list[int]) -> list[int]:
        nonlocal deposed_first, fenced
        bucket = Bucket("s3://data/x", store=MemoryStore())
        for number in before:
            commit(bucket, manifest(number, 1))
        (deposed, leading), taken = run(bucket, given, schedule)
        found, _ = read_pointer(bucket, JOB)
        there = bucket.read(manifest_key(JOB, found.checkpoint))[0]
        assert (found.n_bytes, found.crc32c) == (seal_of(there).n_bytes, seal_of(there).crc32c)
        assert found.epoch == 2
        if isinstance(deposed, Seal):  # it had written all before it was deposed
            deposed_first += 1
            if old == new:
                assert isinstance(leading, InternalError)
                return taken
            assert found.checkpoint == max(old, new)
        else:
            assert isinstance(deposed, FencedError), deposed
            assert found.checkpoint == new
            fenced += 1
        assert leading == seal_of(bucket.read(manifest_key(JOB, new))[0]), leading
        return taken

    n_runs = sum(1 for _ in schedules(try_one))
    assert n_runs > 30
    assert deposed_first
    assert fenced


@pytest.mark.parametrize("before", [[], [1]])
def test_from_the_claim_on_a_deposed_coordinator_commits_nothing(before: list[int]) -> None:
    """What it has committed the new one sees with its claim; after that there is nothing more."""
    outcomes = set()

    def try_one(schedule: list[int]) -> list[int]:
        bucket = Bucket("s3://data/x", store=MemoryStore())
        for number in before:
            commit(bucket, manifest(number, 1))
        given: list[Act] = [committing(manifest(2, 1)), lambda store: lead(store, JOB, "", 2)]
        (deposed, claimed), taken = run(bucket, given, schedule)
        assert isinstance(claimed, JobPointer)
        assert read_pointer(bucket, JOB)[0] == claimed
        assert claimed.epoch == 2
        is_in = isinstance(deposed, Seal)
        assert is_in or isinstance(deposed, FencedError)
        assert claimed.checkpoint == (2 if is_in else max(before, default=0))
        outcomes.add(is_in)
        with pytest.raises(FencedError):
            commit(bucket, manifest(3, 1))
        return taken

    assert sum(1 for _ in schedules(try_one)) > 5
    assert outcomes == {True, False}


def test_a_pointer_that_others_change_all_the_time(bucket: Bucket) -> None:
    """It is given up in the end, by name."""

    class Changed(Bucket):
        def replace(self, key: str, data: bytes, tag: str) -> str | None:
            return None

    write_pointer(bucket, JOB, JobPointer(checkpoint=1), "")
    changed = Changed("s3://data/x", store=bucket._store)
    for act in (
        lambda: claim(changed, JOB, "job-a"),
        lambda: lead(changed, JOB, "job-a", 1),
        lambda: commit(changed, manifest(2, 1)),
    ):
        with pytest.raises(StorageError, match="was changed by others 10 times in a row"):
            act()


def test_what_was_committed_once_is_again(bucket: Bucket) -> None:
    made = manifest(3, 2)
    assert commit(bucket, made, "job-a") == commit(bucket, made, "job-a")
    with pytest.raises(InternalError, match="is there, and says another thing"):
        commit(bucket, Manifest(job=JOB, checkpoint=3, epoch=2, run=7, wall_us=1, tasks=()))
    with pytest.raises(FencedError, match="written by the coordinator of epoch 2 now, for job-a"):
        commit(bucket, manifest(4, 1), "job-a")
    assert read_pointer(bucket, JOB)[0].checkpoint == 3


def test_an_earlier_start_of_a_stream_writes_no_more(bucket: Bucket) -> None:
    commit(bucket, manifest(1, 5), "job-a")
    assert claim(bucket, JOB, "job-b") == claim(bucket, JOB, "job-b")
    with pytest.raises(FencedError, match="for job-b; this coordinator has been superseded"):
        commit(bucket, manifest(2, 5), "job-a")
    commit(bucket, manifest(2, 1), "job-b")  # a start on another fabric, whose epochs are others
    assert read_pointer(bucket, JOB)[0].checkpoint == 2


def test_a_manifest_above_the_pointer_is_replaced(bucket: Bucket) -> None:
    """A coordinator died before the pointer; the next start has that number again."""
    commit(bucket, manifest(1, 1))
    key = manifest_key(JOB, 2)
    commit(other := Bucket("s3://data/y", store=MemoryStore()), manifest(2, 1))
    bucket.put(key, other.read(key)[0])
    commit(bucket, manifest(2, 2))
    assert read_pointer(bucket, JOB)[0].checkpoint == 2


def test_a_pointer_that_is_damaged_or_newer(bucket: Bucket) -> None:
    tag = write_pointer(bucket, JOB, JobPointer(checkpoint=1), "")
    with pytest.raises(FencedError):
        write_pointer(bucket, JOB, JobPointer(checkpoint=2), "other")
    bucket.replace(f"{JOB}/POINTER", b'{"version": 9}', tag)
    with pytest.raises(DataError, match="has format 9, this Fabric reads format 1"):
        read_pointer(bucket, JOB)
    bucket.put(f"{JOB}/POINTER", b"{")
    with pytest.raises(DataError, match="POINTER is damaged"):
        read_pointer(bucket, JOB)
