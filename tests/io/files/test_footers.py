"""Footers: read once while a file stays, never an old one."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric.errors import DataError
from fabric.io.files import parquet
from fabric.io.files.parquet import Footers

OLD_S = 60.0


def write(path: Path, age_s: float = OLD_S, **columns: list[int]) -> str:
    pq.write_table(pa.table(columns), path)
    at = time.time() - age_s
    os.utime(path, (at, at))
    return str(path)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files whose last change, which no test can set, lies behind."""
    later = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: later() + int(OLD_S * 1e9))


@pytest.mark.usefixtures("settled")
def test_a_file_that_stays_is_read_once(tmp_path: Path) -> None:
    path, footers = write(tmp_path / "a.parquet", a=[1, 2]), Footers()
    found = footers.of(path)
    assert found.schema.equals(pa.schema([("a", pa.int64())]))
    assert found.metadata.num_rows == 2
    assert footers.of(path) is found


@pytest.mark.usefixtures("settled")
def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path, footers = write(tmp_path / "a.parquet", a=[1, 2]), Footers()
    before = footers.of(path)
    write(tmp_path / "a.parquet", a=[3, 4])  # as long, and as old as the first
    assert os.stat(path).st_size == before.metadata.serialized_size + _data_bytes(before)
    assert footers.of(path) is not before
    write(tmp_path / "other.parquet", b=[5])
    os.replace(tmp_path / "other.parquet", path)
    assert footers.of(path).schema.names == ["b"]


def _data_bytes(footer: object) -> int:
    """Of the file but for its footer: magic numbers, the footer's length, column chunks."""
    metadata = footer.metadata
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    return 12 + sum(group.column(0).total_compressed_size for group in groups)


def test_a_file_changed_just_now_is_not_remembered(tmp_path: Path) -> None:
    path, footers = write(tmp_path / "a.parquet", a=[1]), Footers()
    assert footers.of(path) is not footers.of(path)


@pytest.mark.usefixtures("settled")
def test_the_oldest_goes_when_there_is_no_more_room(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.parquet", a=[1]) for name in "ab"]
    room = pq.read_metadata(paths[0]).serialized_size
    footers = Footers(room + room // 2)
    first, second = map(footers.of, paths)
    assert footers.of(paths[1]) is second
    assert footers.of(paths[0]) is not first


def test_what_is_missing_raises_what_the_system_says(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Footers().of(str(tmp_path / "none.parquet"))
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    with pytest.raises(pa.ArrowInvalid):
        Footers().of(str(tmp_path / "cut.parquet"))


@pytest.mark.usefixtures("settled")
def test_a_query_sees_a_file_as_it_is_now(tmp_path: Path) -> None:
    frame = fabric.read_parquet(write(tmp_path / "a.parquet", a=[1, 2], b=[0, 0]))
    total = frame.filter(fabric.col("b") < 9).agg(fabric.col("a").sum().alias("total"))
    for values in ([1, 2], [5, 6], [7, 8, 9]):
        write(tmp_path / "a.parquet", a=values, b=[0] * len(values))
        assert total.collect().to_pydict() == {"total": [sum(values)]}
    pq.write_table(pa.table({"a": ["x"], "b": [0]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="has changed since the plan was made"):
        total.collect()


@pytest.mark.usefixtures("settled")
def test_more_files_than_are_remembered_are_opened_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_files, opened = 40, []  # more than are handed to DataFusion alone

    class Counted(pq.ParquetFile):
        def __init__(self, path: str, **options: object) -> None:
            opened.append(path)
            super().__init__(path, **options)

    for number in range(n_files):
        write(tmp_path / f"{number}.parquet", a=[number])
    monkeypatch.setattr(parquet, "_FOOTERS", Footers(n_bytes_max=4_000))
    monkeypatch.setattr(parquet.pq, "ParquetFile", Counted)
    frame = fabric.read_parquet(tmp_path)
    assert len(opened) == n_files
    assert frame.agg(a=fabric.sum("a")).to_dicts() == [{"a": n_files * (n_files - 1) // 2}]
    assert len(opened) <= 5 * n_files
