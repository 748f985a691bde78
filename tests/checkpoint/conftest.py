"""Manifests, acknowledgements and savepoints of any content, and some in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import strategies as st

from fabric._cython.kernels.hash import N_KEY_GROUPS
from fabric.checkpoint.files import Files
from fabric.checkpoint.manifest import (
    BYTES_MAX,
    FINAL,
    GROUPS_MAX,
    FileRecord,
    Manifest,
    NodeRecord,
    SinkHandle,
    SnapshotAck,
    TaskSnapshot,
)
from fabric.checkpoint.savepoint import Savepoint
from fabric.checkpoint.savepoints import Savepoints
from fabric.checkpoint.storage import FolderStorage
from tests.support.disk import mounted

JOB = "job-1"

NUMBERS = st.integers(0, FINAL)
TEXTS = st.text(max_size=6)
BYTES = st.binary(max_size=8)
NAMES = st.from_regex(r"[a-z0-9_][a-z0-9_.\-]{0,5}", fullmatch=True)


def rising(each: st.SearchStrategy, key: object = None) -> st.SearchStrategy:
    """A few, in order, none twice."""
    lists = st.lists(each, max_size=3, unique_by=key)  # type: ignore[call-overload]
    return lists.map(lambda found: tuple(sorted(found, key=key)))  # type: ignore[arg-type]


FILE = FileRecord("state", 10, 99)
FILES = rising(
    st.builds(FileRecord, NAMES, st.integers(0, BYTES_MAX), st.integers(0, 2**32 - 1), TEXTS),
    lambda f: f.name,
)
HANDLES = st.lists(st.builds(SinkHandle, st.integers(1, FINAL), BYTES), max_size=2).map(tuple)
SNAPSHOTS = st.builds(
    TaskSnapshot,
    TEXTS,
    st.integers(0, 3),
    NUMBERS,
    st.builds(lambda a, n: range(a, a + n), st.integers(0, 9), st.integers(0, 9)),
    FILES,
    rising(st.tuples(TEXTS, BYTES), lambda pair: pair[0]),
    HANDLES,
    st.none() | NUMBERS,
)
MANIFESTS = st.builds(
    Manifest,
    job=TEXTS,
    checkpoint=st.integers(1, FINAL),
    epoch=NUMBERS,
    run=NUMBERS,
    wall_us=NUMBERS,
    tasks=rising(SNAPSHOTS, lambda task: (task.node, task.task)),
    nodes=rising(st.builds(NodeRecord, TEXTS, TEXTS, TEXTS), lambda node: node.path),
)
ACKS = st.builds(
    SnapshotAck,
    st.integers(1, FINAL - 1),
    NUMBERS,
    NUMBERS,
    NUMBERS,
    NUMBERS,
    rising(SNAPSHOTS, lambda task: task.node),
    NUMBERS,
)
LABELS = st.text(min_size=1, max_size=9).filter(
    lambda name: name.isprintable() and name == name.strip() and "/" not in name
)
SAVEPOINTS = st.builds(
    Savepoint,
    name=LABELS,
    stream=TEXTS,
    job_name=TEXTS,
    plan=TEXTS,
    key_groups=st.integers(18, GROUPS_MAX),
    release=TEXTS,
    created_us=NUMBERS,
    manifest=MANIFESTS,
).map(Savepoint.without_handles)


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
    made: list[TaskSnapshot] = []
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


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB (tests run as root)."""
    with mounted(tmp_path / "disk", "size=256k") as disk:
        yield disk
