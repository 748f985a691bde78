"""Keyed state through checkpoints: stored, found damaged, restored; unchanged files stored once."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from fabric.checkpoint.manifest import Manifest, TaskSnapshot
from fabric.checkpoint.storage import FolderStorage
from fabric.errors import DataError
from fabric.state import StateSpec, open_states

SPECS = [StateSpec(name="n", kind="value", keys=pa.schema([("key", pa.int64())]), dtype=pa.int64())]
ALL = range(1 << 15)
N_KEYS = 20_000
Backend = Literal["memory", "rocksdb"]


def batch(keys: range, add: int) -> tuple[pa.RecordBatch, pa.Array]:
    return pa.record_batch({"key": list(keys)}), pa.array([key + add for key in keys])


def checkpoint(storage: FolderStorage, states: object, number: int) -> Manifest:
    writer = storage.writer("job", number, "count", 0, 0)
    n_rows = states.snapshot().write(writer)  # type: ignore[attr-defined]
    task = TaskSnapshot("count", 0, 0, ALL, writer.finish(), n_rows=n_rows)
    manifest = Manifest(job="job", checkpoint=number, epoch=1, run=0, wall_us=0, tasks=(task,))
    storage.commit_manifest(manifest)
    return manifest


def restored(
    storage: FolderStorage, manifest: Manifest, backend: Backend, folder: Path
) -> list[int | None]:
    """All values, by key."""
    folder.mkdir()
    reader = storage.reader(manifest, manifest.tasks[0])
    states = open_states(backend, SPECS, folder)
    states.restore([reader], ALL)
    found: list[int | None] = states.state("n").get_many(batch(range(N_KEYS), 0)[0]).to_pylist()
    states.close()
    return found


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_state_goes_through_checkpoints(backend: Backend, tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "root")
    storage.prepare("job")
    (tmp_path / "state").mkdir()
    states = open_states(backend, SPECS, tmp_path / "state")
    states.state("n").put_many(*batch(range(N_KEYS), 0))
    first = checkpoint(storage, states, 1)
    states.state("n").put_many(*batch(range(200), 7))
    second = checkpoint(storage, states, 2)
    assert second.n_rows == (N_KEYS if backend == "memory" else None)
    contents = [{f.content: f for f in m.tasks[0].files if f.content} for m in (first, second)]
    if backend == "rocksdb":
        assert contents[0].keys() & contents[1].keys(), "unchanged files are stored once"
    for manifest, add in ((first, 0), (second, 7)):
        storage.verify(manifest)
        wanted = [key + (add if key < 200 else 0) for key in range(N_KEYS)]
        folder = tmp_path / f"restored-{manifest.checkpoint}"
        assert restored(storage, manifest, backend, folder) == wanted
    states.close()
    storage.retain("job", [2], 3)
    storage.verify(second)
    largest = max(
        (tmp_path / "root" / "job" / f"{2:020}").glob("*/*"), key=lambda path: path.stat().st_size
    )
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.write_bytes(data)
    with pytest.raises(DataError, match=f"{largest.name} is damaged"):
        storage.verify(second)
