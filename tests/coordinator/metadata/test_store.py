"""One suite for every metadata store: records, order, all or nothing, fencing, refusals."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.coordinator.metadata.memory import MemoryData, MemoryStore
from fabric.coordinator.metadata.postgres.database import Database
from fabric.coordinator.metadata.postgres.store import PostgresStore
from fabric.coordinator.metadata.rocksdb import RocksStore
from fabric.coordinator.metadata.store import TABLES, MetadataStore, Table, Write
from fabric.errors import FencedError, StorageError
from tests.support.arrays import examples

KINDS = ["memory", "rocksdb", "postgres"]
Opens = Callable[[], MetadataStore]


@pytest.fixture(params=KINDS)
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Opens]:
    """Makes data of its own each time: a function that opens it, one time after the other."""
    number = count()

    def memory() -> Opens:
        data = MemoryData()
        return lambda: MemoryStore(data)

    def rocksdb() -> Opens:
        folder = tmp_path / f"m{next(number)}"
        return lambda: RocksStore(folder)

    def postgres() -> Opens:
        url, schema = request.getfixturevalue("metadata_url"), f"fabric{next(number)}"
        Database(url, schema).migrate()
        return lambda: opened(url, schema)

    return {"memory": memory, "rocksdb": rocksdb, "postgres": postgres}[request.param]


def opened(url: str, schema: str) -> PostgresStore:
    store = PostgresStore(Database(url, schema))
    store.open()
    return store


@pytest.fixture
def store(fresh: Callable[[], Opens]) -> Iterator[MetadataStore]:
    made = fresh()()
    made.next_epoch()
    yield made
    made.close()


def test_scan_gives_one_table_in_key_order(store: MetadataStore) -> None:
    store.apply([Write("jobs", "b", b"2"), Write("jobs", "a", b"1"), Write("agents", "a", b"x")])
    assert list(store.scan("jobs")) == [("a", b"1"), ("b", b"2")]
    assert list(store.scan("agents")) == [("a", b"x")]
    assert list(store.scan("tasks")) == []


def test_put_overwrites_and_none_deletes(store: MetadataStore) -> None:
    store.apply([Write("jobs", "a", b"1")])
    store.apply([Write("jobs", "a", b"2"), Write("jobs", "b", b"3"), Write("jobs", "b", None)])
    assert list(store.scan("jobs")) == [("a", b"2")]
    store.apply([Write("jobs", "a", None), Write("jobs", "never", None)])
    assert list(store.scan("jobs")) == []
    store.apply([])


def test_epochs_rise(store: MetadataStore) -> None:
    assert [store.next_epoch() for _ in range(3)] == [2, 3, 4]


def test_scan_gives_one_table_in_the_order_of_keys(store: MetadataStore) -> None:
    keys = ["a/1", "a/2", "a/3", "a0", "a%", "a_", "b/1", "é/1", "\U0010ffff"]
    store.apply([Write("attempts", key, key.encode()) for key in keys])
    store.apply([Write("tasks", "a/9", b""), Write("checkpoints", "a/0", b"")])
    assert [key for key, _ in store.scan("attempts")] == sorted(keys)


@pytest.mark.parametrize("key", ["a\0b", "\ud800"])
def test_key_that_is_no_text_is_refused_and_nothing_written(store: MetadataStore, key: str) -> None:
    with pytest.raises(StorageError, match="can't be a key of jobs"):
        store.apply([Write("jobs", "a", b""), Write("jobs", key, b"")])
    assert list(store.scan("jobs")) == []


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.apply([Write("jobs", "a", b"")]),
        lambda s: list(s.scan("jobs")),
        lambda s: s.next_epoch(),
    ],
)
def test_closed_store_refuses(
    store: MetadataStore, call: Callable[[MetadataStore], object]
) -> None:
    store.close()
    store.close()
    with pytest.raises(StorageError, match="is closed"):
        call(store)


WRITES = st.lists(
    st.builds(
        Write,
        st.sampled_from(TABLES),
        st.text(min_size=1, max_size=3, alphabet="ab/é'%\n"),
        st.none() | st.binary(max_size=4),
    ),
    max_size=12,
)


def contents(store: MetadataStore) -> dict[Table, list[tuple[str, bytes]]]:
    return {table: list(store.scan(table)) for table in TABLES}


def test_equals_a_dictionary_and_survives_a_restart(fresh: Callable[[], Opens]) -> None:
    @examples(0.2)
    @given(batches=st.lists(WRITES, max_size=4))
    def check(batches: list[list[Write]]) -> None:
        opens, epochs = fresh(), []
        expected: dict[Table, dict[str, bytes]] = {table: {} for table in TABLES}
        for batch in [*batches, []]:
            store = opens()
            epochs.append(store.next_epoch())
            store.apply(batch)
            for write in batch:
                expected[write.table].pop(write.key, None)
                if write.value is not None:
                    expected[write.table][write.key] = write.value
            assert contents(store) == {t: sorted(rows.items()) for t, rows in expected.items()}
            store.close()
        assert epochs == list(range(1, len(batches) + 2))

    check()


def test_an_older_epoch_writes_nothing_any_more(fresh: Callable[[], Opens]) -> None:
    """Two handles on the same data; RocksDB does not even open it twice."""
    opens = fresh()
    old = opens()
    old.next_epoch()
    old.apply([Write("jobs", "a", b"1")])
    if isinstance(old, RocksStore):
        with pytest.raises(StorageError, match="in use by another coordinator"):
            opens()
        old.close()
    new = opens()
    with pytest.raises(FencedError, match="has not begun an epoch; the newest is 1"):
        new.apply([Write("jobs", "a", b"2")])
    assert new.next_epoch() == 2
    with pytest.raises(StorageError) as caught:
        old.apply([Write("jobs", "a", b"3"), Write("jobs", "b", b"3")])
    assert isinstance(caught.value, FencedError) or "is closed" in str(caught.value)
    assert not caught.value.retryable
    assert contents(new)["jobs"] == [("a", b"1")]
    new.apply([Write("jobs", "a", b"4")])
    assert contents(new)["jobs"] == [("a", b"4")]
    old.close()
    new.close()


def test_threads_write_one_after_the_other(store: MetadataStore) -> None:
    """Every batch puts the same value under all keys: a scan never sees two."""
    keys = [f"{n}" for n in range(5)]
    store.apply([Write("jobs", key, b"0") for key in keys])

    def write(value: bytes) -> None:
        for _ in range(20):
            store.apply([Write("jobs", key, value) for key in keys])

    threads = [threading.Thread(target=write, args=(b"%d" % n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert len({value for _, value in store.scan("jobs")}) == 1
    for thread in threads:
        thread.join()


def test_ten_thousand_jobs_of_history(store: MetadataStore) -> None:
    record = bytes(range(256)) * 4
    for start in range(0, 10_000, 500):
        store.apply(
            [Write("jobs", f"job-{n:06}", record) for n in range(start, start + 500)]
            + [Write("events", f"{n:012}", b"") for n in range(start, start + 500)]
        )
    assert sum(len(value) for _, value in store.scan("jobs")) == 10_000 * len(record)
    store.apply([Write("events", f"{n:012}", None) for n in range(9_000)])  # pruned
    assert len(list(store.scan("events"))) == 1000


def test_any_text_as_a_key(store: MetadataStore) -> None:
    awkward: list[Any] = ["'; DROP TABLE jobs; --", "%s", "a b", "ü\n", "\U0001f600", "\\", '"']
    store.apply([Write("datasets", key, key.encode()) for key in awkward])
    assert list(store.scan("datasets")) == [(key, key.encode()) for key in sorted(awkward)]
    store.apply([Write("datasets", key, None) for key in awkward])
    assert list(store.scan("datasets")) == []
