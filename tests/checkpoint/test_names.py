"""The record of a named stream is read as it was written, or refused; one process holds a name."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

from fabric.checkpoint import names
from fabric.checkpoint.names import (
    HeldName,
    NamedStream,
    NameRecord,
    check_stream_name,
    drop_stream,
    named_streams,
    read_record,
)
from fabric.checkpoint.storage import FolderStorage
from fabric.errors import ConfigError, DataError, NotFoundError, StorageError

ODD = ["clicks", "Clicks", "per minute", "a/b", "..", ".hidden", "ü" * 100, "x" * 128, "q\"'\\"]


def test_records_of_odd_names_do_not_meet(tmp_path: Path) -> None:
    held = [HeldName(tmp_path, name) for name in ODD]
    for number, one in enumerate(held):
        assert one.record is None
        one.write(NameRecord(one.name, f"job-{number}", number))
        one.close()
    for number, name in enumerate(ODD):
        again = HeldName(tmp_path, name)
        assert again.record == NameRecord(name, f"job-{number}", number)
        again.close()
    assert FolderStorage(tmp_path).jobs() == []
    assert {path.parent for path in tmp_path.rglob("*.json")} == {tmp_path / ".names"}


def test_a_name_is_one_process_s(tmp_path: Path) -> None:
    first = HeldName(tmp_path, "one")
    with pytest.raises(ConfigError, match=f"'one' is running already, in process {os.getpid()} on"):
        HeldName(tmp_path, "one")
    HeldName(tmp_path, "two").close()
    first.close()
    first.close()
    HeldName(tmp_path, "one").close()


def test_a_process_that_is_killed_lets_go(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from fabric.checkpoint.names import HeldName\n"
        "held = HeldName(Path(sys.argv[1]), 'one'); print('held', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match=f"in process {other.pid} on"):
            HeldName(tmp_path, "one")
        other.kill()
    HeldName(tmp_path, "one").close()


def test_a_record_is_replaced_whole(tmp_path: Path) -> None:
    held = HeldName(tmp_path, "one")
    held.write(NameRecord("one", "job-1"))
    (tmp_path / ".names" / "one.new").write_bytes(b"of a process that was killed")
    held.write(NameRecord("one", "job-1", 1, ended=True))
    assert held.record == NameRecord("one", "job-1", 1, ended=True)
    assert sorted(os.listdir(tmp_path / ".names")) == ["one.json", "one.lock"]
    held.drop()
    held.close()
    assert HeldName(tmp_path, "one").record is None


GOOD = {"version": 1, "name": "one", "state": "job-1", "starts": 2, "ended": False}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is damaged"),
        (b"[]", "is damaged"),
        (b'{"version": 1}', "is damaged"),
        (json.dumps(GOOD).encode()[:-5], "is damaged"),
        (json.dumps({**GOOD, "starts": -1}).encode(), "starts must be a count"),
        (json.dumps({**GOOD, "starts": True}).encode(), "starts must be a count"),
        (json.dumps({**GOOD, "state": ""}).encode(), "must be texts"),
        (json.dumps({**GOOD, "more": 1}).encode(), "is damaged"),
        (json.dumps({**GOOD, "version": 2}).encode(), "has format 2, this Fabric reads format 1"),
        (json.dumps({**GOOD, "name": "two"}).encode(), "is of the stream 'two', not of 'one'"),
    ],
)
def test_damaged_records_are_refused_and_stay(tmp_path: Path, data: bytes, says: str) -> None:
    HeldName(tmp_path, "one").close()
    path = tmp_path / ".names" / "one.json"
    path.write_bytes(data)
    for _ in range(2):
        with pytest.raises(DataError, match=says) as caught:
            HeldName(tmp_path, "one")
        assert ".names/one.json" in str(caught.value)
    assert path.read_bytes() == data


def test_a_file_in_the_place_of_the_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("a file")
    with pytest.raises(StorageError, match="in the checkpoint folder"):
        HeldName(tmp_path / "root", "one")


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "\0", "x" * 129])
def test_what_a_stream_cannot_be_called(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="can't be the name of a stream; use 1 to 128 printable"):
        check_stream_name(name)
    with pytest.raises(ConfigError):
        HeldName(tmp_path, name)
    assert os.listdir(tmp_path) == []


def test_streams_are_listed_and_dropped(tmp_path: Path) -> None:
    assert named_streams(tmp_path) == []
    storage = FolderStorage(tmp_path)
    held = []
    for number, name in enumerate(("one", "Two")):
        held.append(HeldName(tmp_path, name))
        held[-1].write(NameRecord(name, f"job-{number}", number, ended=number > 0))
        storage.prepare(f"job-{number}")
    held[1].close()
    (tmp_path / ".names" / "three.json").write_bytes(b"{")
    (tmp_path / ".names" / "four.json").write_bytes((tmp_path / ".names" / "one.json").read_bytes())
    two, four, one, three = named_streams(tmp_path)
    assert two == NamedStream("Two", NameRecord("Two", "job-1", 1, ended=True))
    assert (one.name, one.runs_in.split(" on ")[0]) == ("one", f"process {os.getpid()}")
    assert "it is the stream 'one': it was moved" in four.error
    assert ".names/three.json in the checkpoint folder is damaged" in three.error
    with pytest.raises(ConfigError, match=f"'one' is running, in process {os.getpid()}"):
        drop_stream(tmp_path, "one")
    held[0].close()
    assert drop_stream(tmp_path, "one").record == NameRecord("one", "job-0", 0)
    assert storage.jobs() == ["job-1"]
    assert read_record(tmp_path, "one") is None
    with pytest.raises(NotFoundError, match=r"no stream 'one' in .*there are: 'Two', "):
        drop_stream(tmp_path, "one")
    with pytest.raises(DataError, match="is damaged"):
        drop_stream(tmp_path, "three")
    HeldName(tmp_path, "one").close()


def test_a_look_at_a_name_takes_it_from_nobody(tmp_path: Path) -> None:
    """Who lists streams has their locks for a moment; whoever starts one then waits."""
    HeldName(tmp_path, "one").close()
    lock = os.open(tmp_path / ".names" / "one.lock", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    timer = Timer(names.LOOK_S / 2, os.close, [lock])
    timer.start()
    HeldName(tmp_path, "one").close()
    timer.join()
