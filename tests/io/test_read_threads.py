"""Reads on threads of their own: the same items and errors, and nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fabric
from fabric.errors import StorageError
from fabric.io import local_files, read_threads
from fabric.io.files import parquet
from fabric.io.read_threads import outside
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def hasty() -> Iterator[None]:
    """Hangs are noticed soon."""
    read_threads.be_patient(0.2)
    yield
    read_threads.be_patient(read_threads.PATIENCE_S)


def readers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "file reader"}


@given(st.lists(st.integers()))
def test_items_come_in_order_and_end_once(items: list[int]) -> None:
    found = outside(items, "numbers")
    assert list(found) == items
    assert list(found) == []


def test_errors_come_where_they_are_raised() -> None:
    def two() -> Iterator[int]:
        yield 1
        raise ValueError("the second")

    found = outside(two(), "numbers")
    assert next(found) == 1
    with pytest.raises(ValueError, match="the second"):
        next(found)
    with pytest.raises(StopIteration):
        next(found)


def test_nothing_is_read_ahead() -> None:
    made: list[int] = []
    found = outside(map(made.append, range(3)), "numbers")
    next(found)
    assert len(made) == 1
    found.close()
    assert list(found) == []


def test_a_thread_serves_one_read_after_the_other() -> None:
    before = readers()
    for _ in range(50):
        assert len(list(outside(range(3), "numbers"))) == 3
        wait_until(lambda: bool(read_threads._idle))  # the thread is back
    assert len(readers() - before) <= 2  # one may have waited for too long, and be about to end


@pytest.mark.parametrize("way", ["closed", "dropped"])
def test_what_is_open_is_closed_when_nobody_reads_on(way: str) -> None:
    ended = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.set()

    found = outside(endless(), "numbers")
    next(found)
    if way == "closed":
        found.close()
        assert ended.is_set()
    del found
    assert ended.wait(30)


def test_a_hang_is_an_error_that_names_the_place(hasty: None) -> None:
    goes_on, ended = threading.Event(), threading.Event()

    def hangs() -> Iterator[int]:
        try:
            yield 1
            goes_on.wait(30)
            yield 2
        finally:
            ended.set()

    found = outside(hangs(), lambda: "/mnt/x.csv")
    assert next(found) == 1
    with pytest.raises(StorageError, match=r"reading /mnt/x\.csv did not go on for 0\.2 s"):
        next(found)
    assert list(found) == []
    goes_on.set()  # what comes back after all is closed, and its thread serves others
    assert ended.wait(30)


@pytest.mark.parametrize("format", ["parquet", "csv", "ipc"])
def test_a_hung_mount_takes_no_thread_from_others(
    format: str, hasty: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = fabric.DataFrame({"k": range(1_000)})
    for name in ("hung", "good"):
        getattr(rows, f"write_{format}")(tmp_path / name)
    hung, good = (getattr(fabric, f"read_{format}")(tmp_path / name) for name in ("hung", "good"))
    back, descriptor = threading.Event(), local_files.descriptor

    def hangs(path: str) -> int:
        if "/hung/" in path and threading.current_thread() in readers():
            back.wait(60)
        return descriptor(path)

    monkeypatch.setattr(local_files, "descriptor", hangs)
    monkeypatch.setattr(parquet, "_FOOTERS", parquet.Footers(n_bytes_max=0))
    jobs = [
        hung.filter(fabric.col("k") >= n).write_csv(tmp_path / f"out-{n}", wait=False)
        for n in range(4)
    ]
    try:
        assert good.filter(fabric.col("k") >= 0).count() == 1_000
        for job in jobs:
            with pytest.raises(StorageError, match=r"reading \S+/hung/\S+ did not go on"):
                job.wait()
    finally:
        back.set()
    assert hung.count() == 1_000
