"""A start that fails leaves all as it was, and takes nothing from one that has its name now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from obstore.store import MemoryStore

from fabric.checkpoint import places
from fabric.checkpoint.names import NameRecord
from fabric.checkpoint.object_names import ObjectName, read_record
from fabric.config import CheckpointConfig
from fabric.coordinator.submit.stream_names import Found, StreamNames
from fabric.errors import PlanError, StorageError
from fabric.object_store import Bucket
from tests.coordinator.submit.test_stream_names import asked, nobody

CONFIG = CheckpointConfig(folder="s3://data/x")


class Refusing(Bucket):
    """A store that may refuse to write the records of names."""

    refuses = False

    def replace(self, key: str, data: bytes, tag: str) -> str | None:
        if self.refuses and key.endswith(".json"):
            raise StorageError("the store refuses")
        return super().replace(key, data, tag)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Refusing:
    made = Refusing(CONFIG.folder, store=MemoryStore())
    monkeypatch.setattr(places, "_bucket", lambda url: made)
    return made


def started(bucket: Bucket) -> NameRecord:
    """A stream that was started once, and is over."""
    names = StreamNames()
    with names.starting(asked(), CONFIG, nobody):
        pass
    names.close()
    record = read_record(bucket, "clicks")
    assert record is not None
    return record


def fail_after(meanwhile: Callable[[Found], None]) -> None:
    """A start that fails after something has happened."""

    def start() -> None:
        with StreamNames().starting(asked(), CONFIG, nobody) as found:
            meanwhile(found)
            raise PlanError("refused")

    with pytest.raises(PlanError, match="refused"):
        start()


@pytest.mark.parametrize("is_first", [True, False])
def test_the_record_of_another_start_stays(bucket: Refusing, is_first: bool) -> None:
    if not is_first:
        started(bucket)
    undone: list[str] = []
    others: list[ObjectName] = []

    def taken_over(found: Found) -> None:
        found.undo = lambda: undone.append(found.job)
        others.append(other := ObjectName(bucket, "clicks", take_over=True))
        assert other.record is not None
        other.write(replace(other.record, starts=9))

    fail_after(taken_over)
    (other,) = others
    assert not undone
    assert read_record(bucket, "clicks") == other.record
    assert other.is_held()
    other.close()


@pytest.mark.parametrize("undoes", [True, False])
def test_a_start_that_can_not_be_undone_gives_its_name_back(bucket: Refusing, undoes: bool) -> None:
    """The error of the start is told, and nobody waits for a lease that is renewed for ever."""
    before = started(bucket)

    def undo() -> None:
        raise StorageError("the store refuses")

    def refused(found: Found) -> None:
        found.undo = None if undoes else undo
        bucket.refuses = undoes

    fail_after(refused)
    bucket.refuses = False
    ObjectName(bucket, "clicks", sleep=pytest.fail).close()  # type: ignore[arg-type]
    if not undoes:
        assert read_record(bucket, "clicks") == before
