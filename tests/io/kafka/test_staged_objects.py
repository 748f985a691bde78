"""Records of a Kafka sink that wait in an object store until their checkpoint is complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from fabric.errors import DataError, StorageError
from fabric.io.kafka.staging import Stored, is_staged
from fabric.io.object_files import place_of
from fabric.io.sinks import kafka
from fabric.io.sinks.protocol import Handle
from tests.io.kafka.test_publisher import Rig
from tests.services.kafka import kafka_broker
from tests.support.buckets import new_bucket, url_of, use_store


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    use_store(monkeypatch)
    folder = url_of(new_bucket(), "streams")
    made = Rig(folder, kafka_broker())  # type: ignore[arg-type]
    yield made
    for publisher in made.publishers:
        publisher.close()


def staged(rig: Rig) -> list[str]:
    """All that lies in the bucket."""
    bucket, key = place_of(str(rig.folder))
    return sorted(bucket.sizes(key))


def test_records_are_published_once_and_removed(rig: Rig) -> None:
    first, second = rig.portion(100), rig.portion(50, task=1)
    assert len(staged(rig)) == 2
    assert is_staged(first[0]["path"])
    for publisher in (rig.publisher(), rig.publisher()):
        publisher.publish(rig.target, [*first, *second])
    rig.check(150)
    assert staged(rig) == []


def test_objects_that_are_not_what_was_written_are_refused(rig: Rig) -> None:
    (facts,) = rig.portion(100)
    bucket, key = place_of(facts["path"])
    data = bytearray(bucket.read(key)[0])
    data[-200] ^= 1
    bucket.put(key, bytes(data))
    with pytest.raises(DataError, match=r"the staged records in s3://.* are corrupt"):
        rig.publisher().publish(rig.target, [facts])
    Stored(facts).remove()
    Stored(facts).remove()
    with pytest.raises(StorageError, match=r"are missing: s3://.* does not exist"):
        rig.publisher().publish(rig.target, [facts])
    assert rig.seen() == Counter()


def test_a_task_removes_what_earlier_runs_left(rig: Rig) -> None:
    (kept,), (gone,) = rig.portion(3, run=2), rig.portion(3, task=3, run=1)
    rig.task(1, run=2, n_tasks=2)
    assert (is_staged(kept["path"]), is_staged(gone["path"])) == (True, False)


def test_nothing_is_left_of_what_is_given_up(rig: Rig) -> None:
    writer = rig.task(0)
    writer.write(rig.rows(100_000))
    writer.abandon()
    (facts,) = rig.portion(5)
    kafka.abandon([Handle(kafka.KIND, facts)], rig.target)
    assert staged(rig) == []
    rig.portion(5)
    rig.portion(5, task=1)
    kafka.discard(rig.target, rig.job, 0, str(rig.folder), published=False)
    assert staged(rig) == []
