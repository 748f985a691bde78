"""A savepoint is read as it was kept, or refused before use; nothing takes files from another."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.hash import N_KEY_GROUPS
from fabric.checkpoint.codec import encode_savepoint
from fabric.checkpoint.files import Files
from fabric.checkpoint.manifest import FINAL, Manifest, NodeRecord, SinkHandle, TaskSnapshot
from fabric.checkpoint.savepoints import DamagedSavepoint, Savepoint, Savepoints
from fabric.checkpoint.storage import FolderStorage
from fabric.errors import (
    ConfigError,
    DataError,
    FabricError,
    InternalError,
    NotFoundError,
    StorageError,
)
from tests.support.disk import mounted
from tests.support.sim.folder import SimulatedFiles

from .conftest import LABELS

JOB = "job-1"
NODES = ("made", "Enrich/window ü", "top_n_3", "files#result")
ODD = ["clicks", "Clicks", "per minute", "..", ".hidden", "ü" * 100, "x" * 128, "q\"'\\", "a~b"]


def stored(
    root: Path, checkpoint: int, tasks: dict[tuple[str, int], dict[str, bytes]], *,
    files: Files | None = None, immutable: str = "sst",
) -> Manifest:  # fmt: skip
    """A checkpoint with the files of some tasks; those that begin with `immutable` never change."""
    files = files or Files()
    host = root.parent / f"host-{checkpoint}"
    files.make_folder(root.parent)
    files.make_folder(host)
    storage = FolderStorage(root, files)
    storage.prepare(JOB)
    made = []
    for (node, task), contents in sorted(tasks.items()):
        writer = storage.writer(JOB, checkpoint, node, task, 2)
        for number, (name, data) in enumerate(sorted(contents.items())):
            if name.startswith(immutable):
                path = host / f"{len(made)}-{number}"
                files.write(path, data)
                writer.link(name, path, f"{name}-of-{node}-{task}-{checkpoint}")
            else:
                writer.put(name, data)
        groups = range(task * 10, task * 10 + 10)
        handles = (SinkHandle(checkpoint, b"prepared"),)
        positions = (("split", b"%d" % task),)
        made.append(
            TaskSnapshot(node, task, 2, groups, writer.finish(), positions, handles)
        )  # fmt: skip
    nodes = {node for node, _ in tasks if "#" not in node}
    manifest = Manifest(
        job=JOB, checkpoint=checkpoint, epoch=3, run=1, wall_us=5, tasks=tuple(made),
        nodes=tuple(NodeRecord(node, "kind", "text") for node in sorted(nodes)),
    )  # fmt: skip
    storage.commit_manifest(manifest)
    for name in files.names(host):
        files.remove_file(host / name)  # the task moved on
    return manifest


def kept(manifest: Manifest, name: str = "before may", **fields: object) -> Savepoint:
    given = {
        "name": name, "stream": "clicks", "job_name": "the job", "plan": "scan made",
        "key_groups": N_KEY_GROUPS, "release": "0.1.0", "created_us": 7, "manifest": manifest,
    }  # fmt: skip
    return Savepoint(**{**given, **fields})  # type: ignore[arg-type]


TASKS: dict[tuple[str, int], dict[str, bytes]] = {
    ("made", 0): {},
    ("top_n_3", 0): {"state": b"0123456789", "sst.1": b"abc" * 9},
    ("top_n_3", 1): {"state": b"", "sst.1": b"other"},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def manifest(root: Path) -> Manifest:
    return stored(root, 1, TASKS)


@pytest.fixture
def savepoints(root: Path) -> Savepoints:
    return Savepoints(root)


def bytes_of(storage: FolderStorage, manifest: Manifest) -> dict[tuple[str, int, str], bytes]:
    """Every file of a checkpoint, through a reader."""
    found = {}
    for task in manifest.tasks:
        reader = storage.reader(manifest, task)
        for name in reader.names():
            found[task.node, task.task, name] = reader.read(name).to_pybytes()
    return found


CONTENTS = st.dictionaries(
    st.from_regex(r"(sst|state)\.[0-9a-c]", fullmatch=True), st.binary(max_size=20), max_size=3
)
PARTS = st.dictionaries(st.tuples(st.sampled_from(NODES), st.integers(0, 2)), CONTENTS, max_size=5)


class NoLinks(SimulatedFiles):
    """Between file systems, or on one without hard links."""

    def link(self, source: Path, to: Path) -> None:
        raise OSError(errno.EXDEV, "cross-device link")


@given(st.data())
def test_what_is_adopted_is_what_was_kept(data: st.DataObject) -> None:
    """Any files of any nodes, renamed and dropped, by name or in a folder, linked or copied."""
    files = data.draw(st.sampled_from([SimulatedFiles, NoLinks]))()
    root = Path("/there/root")
    files.make_folder(Path("/there"))
    tasks = data.draw(PARTS)
    manifest = stored(root, 1, tasks, files=files)
    storage, savepoints = FolderStorage(root, files), Savepoints(root, files)
    want = bytes_of(storage, manifest)
    name = data.draw(LABELS)
    made = kept(manifest, name)
    folder = savepoints.write(made)
    assert savepoints.load(name) == made.without_handles()
    assert savepoints.list() == [made.without_handles()]
    if data.draw(st.booleans()):
        folder = Path("/there/else")
        if data.draw(st.booleans()):
            savepoints.export(name, folder)
        else:
            savepoints.write(made, str(folder))
        name = str(folder)
    if data.draw(st.booleans()):
        storage.remove_job(JOB)  # the savepoint has all that it needs
    nodes = sorted({node for node, _ in tasks if "#" not in node})
    news = data.draw(st.permutations(["new 1", "made", "new/2"]))
    paths = {
        node: new if data.draw(st.booleans()) else None
        for node, new in zip(nodes, news, strict=False)
    }
    records = tuple(
        NodeRecord(path, "kind", "text") for path in sorted({*filter(None, paths.values()), "z"})
    )
    found = savepoints.load(name)
    assert (found, found.folder) == (made.without_handles(), folder)
    adopted, seal = savepoints.adopt(
        found, paths, job="job-2", checkpoint=9, nodes=records, epoch=4, wall_us=6
    )
    again = savepoints.adopt(
        found, paths, job="job-2", checkpoint=9, nodes=records, epoch=4, wall_us=6
    )
    assert again == (adopted, seal)
    assert storage.load("job-2", 9, seal) == adopted
    if data.draw(st.booleans()):
        for one in savepoints.list():
            savepoints.delete(one.name)
        assert savepoints.list() == []
    storage.verify(adopted)
    assert bytes_of(storage, adopted) == {
        (str(paths[node]), task, file): content
        for (node, task, file), content in want.items()
        if paths.get(node) is not None
    }
    assert (adopted.job, adopted.checkpoint, adopted.epoch, adopted.run) == ("job-2", 9, 4, 0)
    assert adopted.nodes == records
    assert adopted.handles() == {}
    old = {(paths.get(task.node), task.task): task for task in manifest.tasks}
    for task in adopted.tasks:
        same = old[task.node, task.task]
        assert (task.key_groups, task.positions) == (same.key_groups, same.positions)


def test_the_newest_checkpoint_is_adopted_as_a_savepoint_is(
    root: Path, savepoints: Savepoints, manifest: Manifest
) -> None:
    paths = {"made": "made", "top_n_3": "best"}
    nodes = (NodeRecord("best", "k", "t"), NodeRecord("made", "k", "t"))
    adopted, _ = savepoints.adopt(manifest, paths, job=JOB, checkpoint=5, nodes=nodes, wall_us=1)
    storage = FolderStorage(root)
    storage.retain(JOB, [5], 6)
    storage.verify(adopted)
    assert storage.checkpoints(JOB) == [5]


def test_later_checkpoints_find_the_immutable_files_again(
    root: Path, savepoints: Savepoints, manifest: Manifest, tmp_path: Path
) -> None:
    """They are linked, not read again; and they go when nobody has them any more."""
    savepoints.write(kept(manifest))
    nodes = (NodeRecord("a", "k", "t"),)
    paths = {"made": None, "top_n_3": "a"}
    adopted, _ = savepoints.adopt(
        savepoints.load("before may"), paths, job="job-2", checkpoint=1, nodes=nodes, wall_us=1
    )

    class Counting(Files):
        n_read = 0

        def checksum(self, path: Path) -> tuple[int, int]:
            self.n_read += 1
            return super().checksum(path)

    counting = Counting()
    storage = FolderStorage(root, counting)
    (first, _) = adopted.of_node("a")
    storage.reader(adopted, first).fetch("sst.1", tmp_path / "of the host")
    writer = storage.writer("job-2", 2, "a", 0, 0)
    (file,) = (one for one in first.files if one.content)
    writer.link("sst.9", tmp_path / "of the host", file.content)
    assert writer.finish() == (replace(file, name="sst.9"),)
    assert counting.n_read == 0
    writer.abandon()
    (tmp_path / "of the host").unlink()
    savepoints.delete("before may")
    storage.verify(adopted)
    storage.verify(manifest)
    storage.retain("job-2", [], 2)
    storage.verify(manifest)
    for job in (JOB, "job-2"):
        storage.retain(job, [], 2)
    storage.retain(JOB, [], 2)
    assert [path for path in root.rglob("*") if path.is_file()] == []


def test_neither_savepoints_nor_checkpoints_take_files_from_each_other(
    root: Path, savepoints: Savepoints, manifest: Manifest
) -> None:
    storage = FolderStorage(root)
    savepoints.write(kept(manifest, "a"))
    savepoints.write(kept(manifest, "b"))
    storage.retain(JOB, [], 2)
    savepoints.verify("a")
    savepoints.delete("a")
    savepoints.verify("b")
    assert [one.name for one in savepoints.list()] == ["b"]
    second = stored(root, 2, TASKS)
    savepoints.write(kept(second, "c"))
    savepoints.delete("b")
    savepoints.delete("c")
    storage.verify(second)
    assert not list((root / ".savepoints").iterdir())
    shared = {path.stat().st_ino for path in (root / JOB / "shared").iterdir()}
    of_second = {path.stat().st_ino for path in (root / JOB / f"{2:020}").rglob("sst.*")}
    assert shared == of_second  # those that only a savepoint had are gone


def test_odd_names_do_not_meet(root: Path, savepoints: Savepoints, manifest: Manifest) -> None:
    for number, name in enumerate(ODD):
        savepoints.write(kept(manifest, name, created_us=number))
    assert [one.name for one in savepoints.list()] == ODD
    for name in ODD:
        assert savepoints.load(name).name == name
    folders = {path.parent for path in root.rglob("SAVEPOINT")}
    assert folders == set((root / ".savepoints").iterdir())
    assert FolderStorage(root).jobs() == [JOB]
    for name in ODD:
        savepoints.delete(name)
    assert savepoints.list() == []


def test_two_names_of_one_digest_are_told_apart(
    root: Path, savepoints: Savepoints, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fabric.checkpoint import savepoints as module

    monkeypatch.setattr(module, "plain", lambda text: "same" if " " in text else text)
    savepoints.write(kept(manifest, "a 1"))
    with pytest.raises(ConfigError, match="a savepoint 'a 2' already: 'a 1', checkpoint 1 of job"):
        savepoints.write(kept(manifest, "a 2"))
    for call in (savepoints.load, savepoints.delete, savepoints.verify):
        with pytest.raises(NotFoundError, match="no savepoint 'a 2'; there are: 'a 1'"):
            call("a 2")
    savepoints.verify("a 1")


def test_a_name_is_taken_once(root: Path, savepoints: Savepoints, manifest: Manifest) -> None:
    folder = savepoints.write(kept(manifest))
    assert savepoints.write(kept(manifest, created_us=99)) == folder
    assert savepoints.load("before may").created_us == 7
    second = stored(root, 2, TASKS)
    with pytest.raises(ConfigError, match="'before may' already: 'before may', checkpoint 1 of"):
        savepoints.write(kept(second))
    savepoints.verify("before may")
    savepoints.delete("before may")
    savepoints.write(kept(second))
    assert savepoints.load("before may").manifest.checkpoint == 2


def test_what_is_not_there(savepoints: Savepoints, manifest: Manifest, tmp_path: Path) -> None:
    for call in (savepoints.load, savepoints.verify, savepoints.delete):
        with pytest.raises(NotFoundError, match="there is no savepoint 'x'; there are: none"):
            call("x")
    with pytest.raises(NotFoundError, match="no savepoint 'x'"):
        savepoints.export("x", tmp_path / "else")
    for number in range(25):
        savepoints.write(kept(manifest, f"{number:02}"))
    with pytest.raises(NotFoundError, match=r"there are: '00', .*, '19' and 5 more"):
        savepoints.load("x")
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NotFoundError, match=f"no savepoint in the folder {folder}"):
            savepoints.load(str(folder))
    with pytest.raises(ConfigError, match="can't be the name of a savepoint: it has a '/'"):
        savepoints.load("a/b")
    with pytest.raises(ConfigError, match="can't be the name of a savepoint"):
        savepoints.delete(str(tmp_path))


@pytest.mark.parametrize("to", ["relative", "a/b", "/", "/tmp/../etc/x"])
def test_a_folder_is_given_by_its_absolute_path(
    savepoints: Savepoints, manifest: Manifest, to: str
) -> None:
    with pytest.raises(ConfigError, match="is not the absolute path of a folder"):
        savepoints.write(kept(manifest), to)


def test_a_folder_of_a_user_keeps_what_it_has(
    savepoints: Savepoints, manifest: Manifest, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis").write_text("years of work")
    with pytest.raises(ConfigError, match="has other files, such as 'thesis'; a savepoint needs"):
        savepoints.write(kept(manifest), str(mine))
    (mine / "SAVEPOINT.new").write_bytes(b"cut off")
    (mine / "top_n_3.0.2").mkdir()
    (mine / "top_n_3.0.2" / "state").write_text("a chapter")
    with pytest.raises(ConfigError, match="has other files, such as 'thesis'"):
        savepoints.write(kept(manifest), str(mine))
    assert sorted(os.listdir(mine)) == ["thesis", "top_n_3.0.2"]
    assert (mine / "top_n_3.0.2" / "state").read_text() == "a chapter"
    with pytest.raises(StorageError, match=r"the folder .*, or the job's part of it, is not there"):
        savepoints.write(kept(manifest), str(tmp_path / "no" / "folder"))
    (mine / "thesis").unlink()
    shutil.rmtree(mine / "top_n_3.0.2")
    savepoints.write(kept(manifest), str(mine))
    savepoints.verify(str(mine))
    savepoints.write(kept(manifest), str(mine))
    with pytest.raises(ConfigError, match="there is a savepoint in the folder"):
        savepoints.write(kept(manifest, "another"), str(mine))


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


def test_what_adopt_refuses(root: Path, savepoints: Savepoints, manifest: Manifest) -> None:
    savepoints.write(kept(manifest))
    found = savepoints.load("before may")
    nodes = manifest.nodes

    def adopt(source: Savepoint | Manifest, paths: dict[str, str | None], number: int = 1) -> None:
        savepoints.adopt(source, paths, job="job-2", checkpoint=number, nodes=nodes, wall_us=1)

    same: dict[str, str | None] = {"made": "made", "top_n_3": "top_n_3"}
    for source in (found, manifest):
        with pytest.raises(InternalError, match="made and top_n_3 shall both become made"):
            adopt(source, {"made": "made", "top_n_3": "made"})
        with pytest.raises(InternalError, match="nothing is said of the node top_n_3"):
            adopt(source, {"made": "made"})
        with pytest.raises(InternalError, match="top_n_3 shall become other, which is not in the"):
            adopt(source, {"made": "made", "top_n_3": "other"})
    other = replace(found, key_groups=N_KEY_GROUPS * 2, release="9.9")
    with pytest.raises(DataError, match=r"has 65536 key groups, this Fabric has 32768; .* 9.9"):
        adopt(other, same)
    assert not (root / "job-2").exists()
    adopt(found, same)
    with pytest.raises(InternalError, match="is there, and says another thing"):
        adopt(found, {"made": "made", "top_n_3": None})
    FolderStorage(root).verify(FolderStorage(root).load("job-2", 1))


def test_files_of_a_dropped_node_need_not_be_whole(
    root: Path, savepoints: Savepoints, manifest: Manifest
) -> None:
    folder = savepoints.write(kept(manifest))
    shutil.rmtree(folder / "top_n_3.0.2")
    adopted, _ = savepoints.adopt(
        savepoints.load("before may"), {"made": "made", "top_n_3": None}, job="job-2",
        checkpoint=1, nodes=manifest.nodes, wall_us=1,
    )  # fmt: skip
    assert [task.node for task in adopted.tasks] == ["made"]


def test_files_of_a_task_that_has_ended_are_kept(root: Path, savepoints: Savepoints) -> None:
    storage = FolderStorage(root)
    storage.prepare(JOB)
    writer = storage.writer(JOB, FINAL, "best", 0, 0)
    writer.put("state", b"abc")
    ended = TaskSnapshot("best", 0, 0, range(8), writer.finish())
    manifest = Manifest(job=JOB, checkpoint=4, epoch=1, run=0, wall_us=0, tasks=(ended,))
    storage.commit_manifest(manifest)
    savepoints.write(kept(manifest))
    storage.remove_job(JOB)
    savepoints.verify("before may")


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


def test_a_half_written_one_can_be_deleted(
    savepoints: Savepoints, manifest: Manifest, root: Path
) -> None:
    folder = savepoints.write(kept(manifest, "one"))
    (folder / "SAVEPOINT").rename(folder / "SAVEPOINT.new")
    savepoints.delete("one")
    assert os.listdir(root / ".savepoints") == []


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB (tests run as root)."""
    with mounted(tmp_path / "disk", "size=256k") as disk:
        yield disk


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


def test_a_checkpoint_folder_that_is_away(root: Path, tmp_path: Path) -> None:
    calls = (Savepoints(root).list, lambda: Savepoints(root).load("one"))
    for call in calls:
        with pytest.raises(StorageError, match=r"the checkpoint folder, .* is not there; is its"):
            call()
    manifest = stored(root, 1, TASKS)
    Savepoints(root).write(kept(manifest))
    shutil.move(root, tmp_path / "elsewhere")
    for call in calls:
        with pytest.raises(FabricError, match="is not there; is its disk mounted"):
            call()
