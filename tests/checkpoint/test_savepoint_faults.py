"""Savepoints that are damaged, half-written, written twice, or on a disk that refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fabric.checkpoint.codec import encode_savepoint
from fabric.checkpoint.files import Files
from fabric.checkpoint.manifest import Manifest
from fabric.checkpoint.savepoint import DamagedSavepoint
from fabric.checkpoint.savepoints import Savepoints
from fabric.checkpoint.storage import FolderStorage
from fabric.errors import (
    ConfigError,
    DataError,
    FabricError,
    NotFoundError,
    StorageError,
)

from .conftest import JOB, TASKS, kept, stored


def damage_each(folder: Path) -> Iterator[str]:
    """One damage after the other, each undone; what is to be said."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        path.unlink()  # a copy of its own: the checkpoint has the same file
        step = 13 if path.name == "SAVEPOINT" else 1  # `test_codec.py` changes each of its bits
        for place in range(0, len(data), step):
            path.write_bytes(data[:place] + bytes([data[place] ^ 64]) + data[place + 1 :])
            yield path.name
        for size in range(0, len(data), step):
            path.write_bytes(data[:size])
            yield path.name
        path.write_bytes(data + b"0")
        yield path.name
        path.unlink()
        if path.name != "SAVEPOINT":
            yield path.name
        path.mkdir()
        yield path.name
        path.rmdir()
        path.write_bytes(data)


def test_any_damage_is_found_before_use(
    root: Path, savepoints: Savepoints, manifest: Manifest, tmp_path: Path
) -> None:
    folder = savepoints.write(kept(manifest))
    paths = {"made": "made", "top_n_3": "top_n_3"}

    def adopt() -> Manifest:
        found = savepoints.load("before may")
        return savepoints.adopt(
            found, paths, job="job-2", checkpoint=1, nodes=manifest.nodes, wall_us=1
        )[0]

    calls = (
        lambda: savepoints.verify("before may"),
        lambda: savepoints.export("before may", tmp_path / "else"),
        adopt,
    )
    for name in damage_each(folder):
        for call in calls:
            with pytest.raises((DataError, NotFoundError), match=name) as caught:
                call()
            assert str(tmp_path) not in str(caught.value)
        assert not (root / "job-2").exists()
        assert not (tmp_path / "else").exists()
    FolderStorage(root).verify(adopt())


def test_a_damaged_savepoint_hides_no_other(
    root: Path, savepoints: Savepoints, manifest: Manifest
) -> None:
    for name in ("one", "two 2", "three"):
        savepoints.write(kept(manifest, name))
    (folder,) = (root / ".savepoints").glob("two*")
    (folder / "SAVEPOINT").write_bytes(b"fabric-savepoint 1 ")
    (root / ".savepoints" / "three").rename(root / ".savepoints" / "moved")
    moved, damaged, *good = savepoints.list()
    assert [one.name for one in good] == ["one"]
    assert isinstance(damaged, DamagedSavepoint)
    assert isinstance(moved, DamagedSavepoint)
    assert (damaged.name, damaged.folder) == (folder.name, folder)
    assert "is cut off" in str(damaged.error)
    assert "moved is the savepoint 'three': it was moved" in str(moved.error)
    with pytest.raises(DataError, match=r"\.savepoints/two_2~.*/SAVEPOINT is cut off"):
        savepoints.load("two 2")
    with pytest.raises(DataError, match="is cut off"):
        savepoints.write(kept(manifest, "two 2"))
    savepoints.delete(damaged.name)
    savepoints.delete("moved")
    assert [one.name for one in savepoints.list()] == ["one"]
    assert sorted(os.listdir(root / ".savepoints")) == ["one"]
    (root / ".savepoints" / "one" / "SAVEPOINT").write_bytes(b"")
    savepoints.delete("one")
    assert not os.listdir(root / ".savepoints")


def test_a_record_that_is_too_large_is_not_read(
    root: Path, savepoints: Savepoints, manifest: Manifest
) -> None:
    folder = savepoints.write(kept(manifest))
    os.truncate(folder / "SAVEPOINT", 1 << 40)
    with pytest.raises(DataError, match="SAVEPOINT is damaged: it has 1099511627776 bytes"):
        savepoints.load("before may")


def test_a_checkpoint_that_is_gone_is_said(
    root: Path, savepoints: Savepoints, manifest: Manifest
) -> None:
    FolderStorage(root).retain(JOB, [], 2)
    with pytest.raises(NotFoundError, match=r"job-1/0+1/.*/sst.1 is missing"):
        savepoints.write(kept(manifest))
    assert savepoints.list() == []
    assert os.listdir(root / ".savepoints") == []


def test_of_two_writers_one_wins(root: Path) -> None:
    manifests = [stored(root, number, TASKS) for number in (1, 2)]
    for turn in range(5):
        name, start = f"turn {turn}", threading.Barrier(4)

        def write(number: int, name: str = name, start: threading.Barrier = start) -> str:
            start.wait()
            try:
                Savepoints(root).write(kept(manifests[number % 2], name))
            except ConfigError as error:
                return str(error)
            return f"wrote {number % 2}"

        with ThreadPoolExecutor(4) as pool:
            told = list(pool.map(write, range(4)))
        (winner,) = {one for one in told if one.startswith("wrote")}
        assert all("already" in one or "just now" in one for one in told if one != winner)
        found = Savepoints(root).load(name)
        assert f"wrote {found.manifest.checkpoint - 1}" == winner
        Savepoints(root).verify(found)


def test_a_savepoint_that_another_writes_is_left_alone(
    savepoints: Savepoints, manifest: Manifest, root: Path
) -> None:
    folder = root / ".savepoints" / "one"
    folder.mkdir(parents=True)
    with Files().locked(folder / "SAVEPOINT.lock"):
        (folder / "SAVEPOINT.new").write_bytes(encode_savepoint(kept(manifest, "one")))
        for call in (
            lambda: savepoints.write(kept(manifest, "one")),
            lambda: savepoints.delete("one"),
        ):
            with pytest.raises(ConfigError, match="writes or deletes the savepoint one just now"):
                call()
        assert sorted(os.listdir(folder)) == ["SAVEPOINT.lock", "SAVEPOINT.new"]
        assert savepoints.list() == []
    savepoints.write(kept(manifest, "one"))
    savepoints.verify("one")
    assert not (folder / "SAVEPOINT.lock").exists()


KILLED = """
import os, sys
from pathlib import Path
from fabric.checkpoint.codec import decode_savepoint
from fabric.checkpoint.files import Files
from fabric.checkpoint.savepoints import Savepoints

class Killed(Files):
    def link(self, source, to):
        super().link(source, to)
        os._exit(9)

one = decode_savepoint(sys.stdin.buffer.read(), "stdin")
Savepoints(Path(sys.argv[1]), Killed()).write(one, sys.argv[2])
"""


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_next_writer_finishes_what_a_killed_one_began(
    savepoints: Savepoints, manifest: Manifest, tmp_path: Path, *, elsewhere: bool
) -> None:
    to = str(tmp_path / "else") if elsewhere else ""
    command = [sys.executable, "-c", KILLED, str(tmp_path / "root"), to]
    data = encode_savepoint(kept(manifest, "one").without_handles())
    assert subprocess.run(command, input=data, check=False).returncode == 9
    assert savepoints.list() == []
    name = to or "one"
    with pytest.raises(NotFoundError):
        savepoints.load(name)
    folder = savepoints.write(kept(manifest, "one"), to)
    savepoints.verify(name)
    assert sorted(os.listdir(folder)) == ["SAVEPOINT", "top_n_3.0.2", "top_n_3.1.2"]


@pytest.mark.parametrize("name", [".", "..", "one ", "../job-1", "/"])
def test_nothing_but_savepoints_is_deleted(
    savepoints: Savepoints, manifest: Manifest, root: Path, name: str
) -> None:
    savepoints.write(kept(manifest, "one"))
    before = sorted(root.rglob("*"))
    with pytest.raises((NotFoundError, ConfigError)):
        savepoints.delete(name)
    assert sorted(root.rglob("*")) == before


def test_a_half_written_one_can_be_deleted(
    savepoints: Savepoints, manifest: Manifest, root: Path
) -> None:
    folder = savepoints.write(kept(manifest, "one"))
    (folder / "SAVEPOINT").rename(folder / "SAVEPOINT.new")
    savepoints.delete("one")
    assert os.listdir(root / ".savepoints") == []


def test_another_file_system_that_is_full_then_read_only(
    savepoints: Savepoints, manifest: Manifest, root: Path, disk: Path
) -> None:
    savepoints.write(kept(manifest, "small"))
    large = stored(root, 2, {("a", 0): {"state": bytes(90_000), "sst": bytes(200_000)}})
    savepoints.write(kept(large, "large"))
    with pytest.raises(StorageError, match=r"the disk of the folder /.*/disk is full: out/a.0.2"):
        savepoints.export("large", disk / "out")
    assert [path for path in disk.rglob("*") if path.is_file()] == []
    savepoints.export("small", disk / "out")
    adopted, _ = savepoints.adopt(
        savepoints.load(str(disk / "out")), {"made": "made", "top_n_3": "top_n_3"}, job="job-2",
        checkpoint=1, nodes=manifest.nodes, wall_us=1,
    )  # fmt: skip
    FolderStorage(root).verify(adopted)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    with pytest.raises(StorageError, match=r"the folder /.*/disk is read-only: more was not"):
        savepoints.export("small", disk / "more")
    savepoints.verify(str(disk / "out"))


def test_a_full_or_read_only_checkpoint_folder(disk: Path, tmp_path: Path) -> None:
    manifest = stored(disk / "root", 1, {("a", 0): {"state": bytes(90_000)}})
    savepoints = Savepoints(disk / "root")
    savepoints.write(kept(manifest, "one"))  # links take no room
    savepoints.export("one", tmp_path / "out")
    found = savepoints.load(str(tmp_path / "out"))

    def adopt(number: int) -> Manifest:
        return savepoints.adopt(
            found, {"a": "a"}, job="job-2", checkpoint=number, nodes=manifest.nodes, wall_us=1
        )[0]

    first = adopt(1)
    with pytest.raises(StorageError, match="the disk of the checkpoint folder is full: job-2/0"):
        adopt(2)
    assert not (disk / "root" / "job-2" / f"{2:020}").exists()
    FolderStorage(disk / "root").verify(first)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    for call in (
        lambda: savepoints.write(kept(manifest, "two")),
        lambda: savepoints.delete("one"),
        lambda: adopt(3),
    ):
        with pytest.raises(StorageError, match="the checkpoint folder is read-only"):
            call()
    savepoints.verify("one")


def test_before_there_is_a_checkpoint_folder(root: Path, tmp_path: Path) -> None:
    """The first stream makes it, when it takes its first checkpoint."""
    savepoints = Savepoints(root)
    assert savepoints.list() == []
    with pytest.raises(NotFoundError, match="none, and the checkpoint folder is not there yet"):
        savepoints.load("before may")
    manifest = stored(root, 1, TASKS)
    savepoints.write(kept(manifest))
    shutil.move(root, tmp_path / "elsewhere")
    with pytest.raises(NotFoundError, match="the checkpoint folder is not there yet"):
        savepoints.load("before may")
    with pytest.raises(FabricError):
        savepoints.write(kept(manifest))
    shutil.rmtree(root)
    shutil.move(tmp_path / "elsewhere", root)
    savepoints.verify("before may")
