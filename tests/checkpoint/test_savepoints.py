"""A savepoint is read as it was kept, or refused before use; nothing takes files from another."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.hash import N_KEY_GROUPS
from fabric.checkpoint.files import Files
from fabric.checkpoint.manifest import FINAL, Manifest, NodeRecord, TaskSnapshot
from fabric.checkpoint.savepoint import Savepoint
from fabric.checkpoint.savepoints import Savepoints
from fabric.checkpoint.storage import FolderStorage
from fabric.errors import (
    ConfigError,
    DataError,
    InternalError,
    NotFoundError,
    StorageError,
)
from tests.support.sim.folder import SimulatedFiles

from .conftest import JOB, LABELS, TASKS, kept, stored

NODES = ("made", "Enrich/window ü", "top_n_3", "files#result")
ODD = ["clicks", "Clicks", "per minute", "..", ".hidden", "ü" * 100, "x" * 128, "q\"'\\", "a~b"]


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
