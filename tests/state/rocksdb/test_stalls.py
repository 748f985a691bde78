"""Writes for which RocksDB has no room."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from fabric.errors import StorageError
from fabric.state import StateSpec, open_states
from fabric.state.rocksdb.database import PATIENCE_S, taken
from tests.support.disk import mounted

STALL = Exception("Result incomplete: Write stall")


class Fake:
    """Refuses the first writes; for `n_full` looks it has no room."""

    def __init__(self, *refusals: Exception, n_failed: int = 0, n_full: int = 0) -> None:
        self.refusals, self.n_failed, self.n_full = list(refusals), n_failed, n_full
        self.n_taken = 0
        self.paused_s: list[float] = []

    def write(self) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        self.n_taken += 1

    def property_int_value(self, name: str) -> int:
        if name == "rocksdb.background-errors":
            return self.n_failed
        if name == "rocksdb.is-write-stopped":
            self.n_full -= 1
            return int(self.n_full >= 0)
        assert name == "rocksdb.actual-delayed-write-rate"
        return 0


def test_a_write_waits_for_room_and_is_made_once() -> None:
    for n_failed in (0, 1):
        fake = Fake(*[STALL] * 50, n_failed=n_failed)
        taken(fake, fake.write, fake.paused_s.append)
        assert fake.n_taken == 1
        assert len(fake.paused_s) == 50
        assert fake.paused_s == sorted(fake.paused_s)


def test_a_batch_is_not_made_again_before_there_is_room() -> None:
    fake = Fake(STALL, STALL, n_full=20)
    taken(fake, fake.write, fake.paused_s.append)
    assert fake.n_taken == 1
    assert len(fake.paused_s) == 22  # 20 looks at none, and one each for the two refusals


def test_it_waits_for_ever_while_nothing_has_failed() -> None:
    fake = Fake(*[STALL] * 10_000)
    taken(fake, fake.write, fake.paused_s.append)
    assert sum(fake.paused_s) > PATIENCE_S
    assert fake.n_taken == 1


def test_it_gives_up_where_there_will_be_no_room() -> None:
    fake = Fake(*[STALL] * 10_000, n_failed=1)
    with pytest.raises(Exception, match="Write stall"):
        taken(fake, fake.write, fake.paused_s.append)
    assert PATIENCE_S <= sum(fake.paused_s) < PATIENCE_S + 1
    assert fake.n_taken == 0


def test_another_error_is_told_at_once() -> None:
    fake = Fake(STALL, Exception("IO error: No space left on device"))
    with pytest.raises(Exception, match="No space"):
        taken(fake, fake.write, fake.paused_s.append)
    assert len(fake.paused_s) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 48 MB."""
    with mounted(tmp_path / "disk", "size=48m") as folder:
        yield folder


def test_a_full_disk_ends_a_states_writes(small_disk: Path) -> None:
    spec = StateSpec(name="v", kind="value", keys=pa.schema({"key": "int64"}), dtype="binary")
    store = open_states("rocksdb", [spec], small_disk / "state")
    state = store.state("v")

    def fill() -> None:
        for begin in range(0, 400_000, 1_000):
            keys = pa.record_batch({"key": pa.array(range(begin, begin + 1_000), pa.int64())})
            values = pa.array([os.urandom(1_000) for _ in range(1_000)], pa.binary())
            state.put_many(keys, values)

    with pytest.raises(StorageError, match=r"the disk of the state in .* is full|has no room"):
        fill()
    with pytest.raises(StorageError):
        store.close()
