"""Files of a checkpoint are damaged before a stream goes on from it.

Whatever is wrong is found before any of it is used, said with the file's name, and the checkpoint
before is taken; what came out since is taken back. So in the end each row counts once.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.errors import ExternalError
from fabric.plan.nodes import Sink
from fabric.plan.sources import GeneratorStream
from fabric.plan.targets import StreamFileTarget
from tests.support.compare import unlike
from tests.support.damage import damaged_when_read, flip
from tests.support.embedded import EmbeddedFabric, embedded_pair
from tests.support.held import held
from tests.support.sampled import sampled
from tests.support.stream_windows import half_seconds, half_seconds_model
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(240)
SOURCE = GeneratorStream(
    n_rows=12_000, n_splits=3, n_keys=50, rows_per_s=4_000, start_us=1_767_225_600_000_000
)
N_FILES = 16
"""At least as many as a checkpoint of this job has: each is damaged in every way."""


def plan(out: Path) -> Sink:
    return Sink(half_seconds(SOURCE, 1), StreamFileTarget("parquet", str(out)), path="out")


@contextmanager
def running(tmp_path: Path, retained: int = 3) -> Iterator[EmbeddedFabric]:
    (folder := tmp_path / "checkpoints").mkdir()
    config = CoordinatorConfig(
        checkpoint=CheckpointConfig(folder=str(folder), interval_s=0.2, retained=retained)
    )
    with embedded_pair(3, slots=4, config=config) as made:
        yield made


def listed(fabric: EmbeddedFabric, job: str) -> list[pb.CheckpointStatus]:
    asked = pb.CheckpointsRequest(job_id=job)
    return list(fabric.control.list_checkpoints(asked).checkpoints)


def published(fabric: EmbeddedFabric, job: str) -> int:
    return max(
        (one.checkpoint for one in listed(fabric, job) if one.state == "published"), default=0
    )


def files_of(folder: Path) -> list[Path]:
    """All files of a checkpoint that have anything in them, the manifest last."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
    return sorted(found, key=lambda path: (path.name == "MANIFEST", path))


def wrong_byte(path: Path, folder: Path) -> None:
    flip(path, path.stat().st_size // 2)


def gone(path: Path, folder: Path) -> None:
    path.unlink()


def empty(path: Path, folder: Path) -> None:
    path.write_bytes(b"")


def of_another_checkpoint(path: Path, folder: Path) -> None:
    """The same file of the checkpoint before, and the other way round: both are damaged then."""
    older = folder.parent / f"{int(folder.name) - 1:020}" / path.relative_to(folder)
    if not older.exists() or older.read_bytes() == path.read_bytes():
        return gone(path, folder)  # nothing that could be told apart
    shutil.copyfile(older, path)
    return None


WAYS = [wrong_byte, gone, empty, of_another_checkpoint]
CASES = [(way, n) for n in range(N_FILES) for way in WAYS]


def begun_and_lost(fabric: EmbeddedFabric, tmp_path: Path) -> str:
    """The id of the job, which has lost an agent amid its rows."""
    with held(tmp_path / "held"):
        job = fabric.submit(plan(tmp_path / "out"), parallelism=3)
        wait_until(lambda: published(fabric, job) >= 2, 60)
        fabric.agents[2].close()
    return job


def check_goes_on(tmp_path: Path, change: Callable[[Path], str]) -> None:
    """Run the job, lose an agent, do `change` to the newest checkpoint; returns a file's name."""
    out, named = tmp_path / "out", []
    with (
        running(tmp_path) as fabric,
        damaged_when_read(lambda folder: named.append(change(folder))) as damaged,
    ):
        job = begun_and_lost(fabric, tmp_path)
        fabric.wait(job)
        events = fabric.control.list_events(pb.EventsRequest(job_id=job)).events
    found = ds.dataset(out).to_table().drop_columns("window_end")
    assert unlike(found, half_seconds_model(SOURCE)) == ""
    (told,) = [event.text for event in events if event.kind.startswith("CHECKPOINT IS DAMAGED")]
    assert f"checkpoint {damaged.checkpoint}," in told
    assert named[0] in told, told


@pytest.mark.parametrize(("way", "n"), sampled(CASES, 3, salt="damaged"))
def test_a_damaged_file(way: Callable[[Path, Path], None], n: int, tmp_path: Path) -> None:
    def change(folder: Path) -> str:
        files = files_of(folder)
        assert len(files) <= N_FILES
        path = files[n % len(files)]
        way(path, folder)
        return path.name

    check_goes_on(tmp_path, change)


PLACES = [("begin", 512), ("begin", 1024), *(("record", n) for n in (-1, 0, 1)), ("end", -1)]


@pytest.mark.parametrize(("place", "offset"), sampled(PLACES, 1, salt="manifests"))
def test_a_manifest_that_was_cut_off(place: str, offset: int, tmp_path: Path) -> None:
    """At records, and at blocks of a disk; each single byte is tried with the codec."""

    def change(folder: Path) -> str:
        path = folder / "MANIFEST"
        data = path.read_bytes()
        record = data.index(b'{"', len(data) // 2)
        at = {"begin": 0, "record": record, "end": len(data)}[place]
        path.write_bytes(data[: at + offset])
        return "MANIFEST"

    check_goes_on(tmp_path, change)


def test_without_another_checkpoint_the_job_fails_with_the_name(tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        wrong_byte(files_of(folder)[0], folder)

    with running(tmp_path, retained=1) as fabric, damaged_when_read(change) as damaged:
        job = begun_and_lost(fabric, tmp_path)
        with pytest.raises(
            ExternalError, match=r"no checkpoint .* is whole.*: checkpoint \d+: .*/"
        ):
            fabric.wait(job)
        (one,) = [one for one in listed(fabric, job) if one.state == "damaged"]
        assert one.checkpoint == damaged.checkpoint
        assert one.reason
