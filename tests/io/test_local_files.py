"""Regular files alone: whatever else a path names is refused by name, and never waited for."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric.errors import DataError, FabricError, NotFoundError
from fabric.io import local_files
from fabric.io.local_files import reading
from fabric.io.readers import enumerate_stream, open_reader
from fabric.io.sources.file import enumerate_splits, read_split, source_schema
from fabric.plan.sources import FileSource, FollowedFiles, Split
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(240)
SCHEMA = pa.schema([("k", pa.int64())])
FORMATS = ("parquet", "csv", "ipc", "json")
Make = Callable[[Path], None]


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


MAKERS: dict[str, Make] = {
    "named pipe": os.mkfifo,
    "socket": _socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.fixture(params=MAKERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def irregular(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    MAKERS[kind](Path("x.csv"))
    return str(tmp_path / "x.csv")


@pytest.mark.parametrize(
    "opening",
    [
        local_files.descriptor,
        local_files.opened,
        local_files.unpacked,
        local_files.mapped,
        local_files.facts,
    ],
)
def test_nothing_else_is_opened(
    opening: Callable[[str], object], kind: str, irregular: str
) -> None:
    with pytest.raises(DataError, match=rf"x\.csv is a {kind}, and only regular files are read"):
        opening(irregular)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_refuses_it(format: str, kind: str, irregular: str) -> None:
    source = FileSource(format, (irregular,))  # type: ignore[arg-type]
    asked = (
        lambda: source_schema(source),
        lambda: enumerate_splits(source, 4),
        lambda: list(read_split(source, SCHEMA, Split(irregular), None)),
    )
    for ask in asked:
        with pytest.raises(DataError, match=f"is a {kind}"):
            ask()


@pytest.mark.parametrize("way", ["file", "folder", "pattern", "list"])
def test_a_frame_refuses_it(way: str, kind: str, irregular: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k\n1\n")
    path = {"file": irregular, "folder": tmp_path, "pattern": tmp_path / "*.csv"}.get(way)
    with pytest.raises(DataError, match=f"is a {kind}"):
        fabric.read_csv([tmp_path / "a.csv", irregular] if path is None else path)


def test_a_growing_file_is_one(kind: str, irregular: str) -> None:
    source = FollowedFiles("csv", irregular, grows=True, until="now")
    reader = open_reader(source, SCHEMA)
    reader.open(enumerate_stream(source))
    with closing(reader), pytest.raises(DataError, match=f"is a {kind}"):
        reader.poll(1, 0.0)


def test_a_folder_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="is a folder, not a CSV file"):
        enumerate_splits(FileSource("csv", (str(tmp_path),)), 1)


def test_what_takes_the_place_while_it_is_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("k\n1\n")
    facts = local_files.facts

    def then_replaced(name: str) -> os.stat_result:
        found = facts(name)
        path.unlink()
        os.mkfifo(path)
        return found

    monkeypatch.setattr(local_files, "facts", then_replaced)
    with pytest.raises(DataError, match="is a named pipe"):
        local_files.descriptor(str(path))


def test_arrow_reads_the_file_that_was_looked_at(tmp_path: Path) -> None:
    path, other = tmp_path / "x.parquet", tmp_path / "y.parquet"
    pq.write_table(pa.table({"k": [1]}), path)
    pq.write_table(pa.table({"k": [2]}), other)
    with local_files.opened(str(path)) as file:
        other.rename(path)
        assert pq.read_table(file).to_pydict() == {"k": [1]}


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "csv.bz2", "csv.zst", "csv.lz4"])
def test_packed_files_are_unpacked(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{ending}"
    with pa.output_stream(path) as out:
        out.write(b"k\n1\n")
    with local_files.unpacked(str(path)) as file:
        assert file.read() == b"k\n1\n"


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("k\n1\n")
    os.mkfifo(tmp_path / "pipe")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        local_files.opened(str(path)).close()
        for name in ("pipe", "none"):
            with pytest.raises(FabricError), reading(name, "CSV"):
                local_files.opened(str(tmp_path / name))
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)  # others may have closed some
