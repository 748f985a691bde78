"""One suite for every metadata store, and what only RocksDB can show: restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.coordinator.metadata.memory import MemoryStore
from fabric.coordinator.metadata.rocksdb import RocksStore
from fabric.coordinator.metadata.store import TABLES, MetadataStore, Write
from fabric.errors import StorageError


@pytest.fixture(params=["memory", "rocksdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetadataStore]:
    made: MetadataStore = MemoryStore() if request.param == "memory" else RocksStore(tmp_path / "m")
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


def test_epochs_rise(store: MetadataStore) -> None:
    assert [store.next_epoch() for _ in range(3)] == [1, 2, 3]


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
        st.text(min_size=1, max_size=3, alphabet="ab/é"),
        st.none() | st.binary(max_size=4),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(batches=st.lists(WRITES, max_size=4))
def test_rocksdb_equals_memory_and_survives_a_restart(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Write]]
) -> None:
    folder = tmp_path_factory.mktemp("rocks")
    memory, rocks = MemoryStore(), RocksStore(folder)
    epochs = [rocks.next_epoch()]
    for batch in batches:
        memory.apply(batch)
        rocks.apply(batch)
        rocks.close()
        rocks = RocksStore(folder)
        epochs.append(rocks.next_epoch())
    for table in TABLES:
        assert list(rocks.scan(table)) == list(memory.scan(table))
    assert epochs == sorted(set(epochs))
    rocks.close()


def test_second_coordinator_is_refused(tmp_path: Path) -> None:
    first = RocksStore(tmp_path)
    with pytest.raises(StorageError, match="in use by another coordinator"):
        RocksStore(tmp_path)
    first.close()
    RocksStore(tmp_path).close()


def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="can't be opened"):
        RocksStore(tmp_path / "file")
