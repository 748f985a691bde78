"""What a stream with a name goes on from; `test_upgrades.py` has which plans its state is of."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from fabric.checkpoint.manifest import (
    FINAL,
    Manifest,
    NodeRecord,
    SinkHandle,
    TaskSnapshot,
)
from fabric.checkpoint.names import HeldName, NameRecord
from fabric.checkpoint.object_savepoints import ObjectSavepoints
from fabric.checkpoint.object_storage import ObjectStorage
from fabric.checkpoint.storage import FolderStorage
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.submit.stream_names import StreamNames, _content
from fabric.errors import ConfigError, DataError, PlanError
from fabric.object_store import Bucket

SINK = NodeRecord("sink_1", "sink", '.write_stream("/out")')


# ---- what lies in storage


@pytest.fixture
def config(tmp_path: Path) -> CheckpointConfig:
    return CheckpointConfig(folder=str(tmp_path))


def asked(on_existing: str = "continue") -> pb.StreamName:
    return pb.StreamName(name="clicks", on_existing=on_existing)


def nobody(folder: str, name: str) -> str:
    return ""


def begun(config: CheckpointConfig, *numbers: int, ended: bool = False) -> str:
    """A stream that was started, made these checkpoints and was killed; its first job."""
    names = StreamNames()
    with names.starting(asked(), config, nobody) as found:
        pass
    storage = FolderStorage(Path(config.folder))
    storage.prepare(found.job)
    for number in numbers:
        handle = SinkHandle(number, b"h%d" % number)
        storage.commit_manifest(
            Manifest(
                job=found.job, checkpoint=number, epoch=1, run=0, wall_us=number * 1_000_000,
                tasks=(TaskSnapshot("sink_1", 0, 0, range(1), handles=(handle,)),), nodes=(SINK,),
            )
        )  # fmt: skip
    if ended:
        names.ended(found.job, by_itself=True)
    names.close()
    return found.job


def test_a_first_start_is_new(config: CheckpointConfig) -> None:
    names = StreamNames()
    with names.starting(asked(), config, nobody) as found:
        assert found.goes_on == ""
        assert found.start.origin == pb.StreamOrigin(name="clicks", state=found.job)
        assert (found.start.last, found.start.pointers) == (0, ())
    with pytest.raises(ConfigError, match="running already"):
        HeldName(Path(config.folder), "clicks")
    names.ended("job-other", by_itself=True)
    names.ended(found.job, by_itself=False)
    held = HeldName(Path(config.folder), "clicks")
    assert held.record == NameRecord("clicks", found.job, 1)
    held.close()


def test_the_next_start_goes_on_as_another_job(config: CheckpointConfig) -> None:
    first = begun(config, 1, 2, 4)
    storage = FolderStorage(Path(config.folder))
    half = storage.writer(first, 6, "sink_1", 0, 0)
    half.put("rows", b"1")
    final = storage.writer(first, FINAL, "sink_1", 0, 0)
    final.put("rows", b"1")
    final.finish()
    names = StreamNames()
    with names.starting(asked(), config, nobody) as found:
        assert found.job != first == found.goes_on
        origin = found.start.origin
        assert (origin.state, origin.start, origin.checkpoint, origin.begun_s) == (first, 1, 4, 4.0)
        assert found.start.last == 6, "a number is given once, even to half a checkpoint"
        states = [(p.checkpoint, p.state) for p in found.start.pointers]
        assert states == [(1, "published"), (2, "published"), (4, "complete")]
        assert found.start.pointers[-1].handles == (("sink_1", (b"h4",)),)
    names.close()
    storage.writer(first, FINAL, "sink_1", 0, 0).put("rows", b"2")  # nothing is in its way


def test_a_refused_start_changes_nothing(config: CheckpointConfig) -> None:
    first = begun(config, 1)
    for on_existing in ("continue", "new"):
        names = StreamNames()
        with (
            pytest.raises(PlanError, match="refused"),
            names.starting(asked(on_existing), config, nobody),
        ):
            raise PlanError("refused")
        held = HeldName(Path(config.folder), "clicks")
        assert held.record == NameRecord("clicks", first, 1)
        held.close()


def test_a_new_stream_leaves_the_old_checkpoints(config: CheckpointConfig) -> None:
    first = begun(config, 1, 2)
    names = StreamNames()
    with names.starting(asked("new"), config, nobody) as found:
        assert found.goes_on == ""
        assert found.start.origin.state == found.job != first
    names.close()
    assert FolderStorage(Path(config.folder)).checkpoints(first) == [1, 2]


def test_what_shall_not_go_on(config: CheckpointConfig) -> None:
    first = begun(config, 1, 2, ended=True)
    with (
        pytest.raises(ConfigError, match=f"left checkpoint 2 of job {first}"),
        StreamNames().starting(asked("fail"), config, nobody),
    ):
        pass
    with (
        pytest.raises(ConfigError, match="came to its end"),
        StreamNames().starting(asked(), config, nobody),
    ):
        pass
    with (
        pytest.raises(ConfigError, match="on_existing is one of"),
        StreamNames().starting(asked("other"), config, nobody),
    ):
        pass
    names = StreamNames()
    with names.starting(asked("new"), config, nobody):
        pass
    names.close()


def test_what_runs_is_named(config: CheckpointConfig) -> None:
    with (
        pytest.raises(ConfigError, match="as job job-7"),
        StreamNames().starting(asked(), config, lambda folder, name: "job-7"),
    ):
        pass
    assert os.listdir(config.folder) == []


def test_a_damaged_manifest_is_not_passed_over(config: CheckpointConfig) -> None:
    first = begun(config, 1, 2)
    path = Path(config.folder) / first / f"{2:020}" / "MANIFEST"
    path.write_bytes(path.read_bytes()[:-3])
    with (
        pytest.raises(DataError, match=r"the stream 'clicks' can't go on: .*cut off.*not known"),
        StreamNames().starting(asked(), config, nobody),
    ):
        pass


# ---- after a start that has adopted a checkpoint


def adopt(config: CheckpointConfig, job: str, number: int, **sinks: str) -> None:
    """What a start leaves that was killed before it published anything."""
    FolderStorage(Path(config.folder)).commit_manifest(
        Manifest(job=job, checkpoint=number, epoch=0, run=0, wall_us=0, tasks=(), nodes=())
    )
    held = HeldName(Path(config.folder), "clicks")
    assert held.record is not None
    held.write(replace(held.record, sinks=sinks))
    held.close()


def test_what_an_earlier_start_owed_is_owed_under_its_new_path(config: CheckpointConfig) -> None:
    first = begun(config, 1, 2)
    adopt(config, first, 3, sink_1="out")
    adopt(config, first, 4, sink_1="out")
    names = StreamNames()
    with names.starting(asked(), config, nobody) as found:
        told = [(p.checkpoint, p.state, p.handles, p.adopted) for p in found.start.pointers]
        assert told == [
            (1, "published", (("sink_1", (b"h1",)),), False),
            (2, "complete", (("out", (b"h2",)),), False),
            (3, "published", (), True),
            (4, "published", (), True),
        ]
        assert found.start.last == 4
    names.close()
    held = HeldName(Path(config.folder), "clicks")
    assert held.record is not None
    assert held.record.sinks == {"sink_1": "out"}, "also for the next start"
    held.close()


def test_what_was_out_when_its_sink_was_dropped_is_not_owed(config: CheckpointConfig) -> None:
    first = begun(config, 1, 2)
    adopt(config, first, 3)
    names = StreamNames()
    with names.starting(asked(), config, nobody) as found:
        assert [p.state for p in found.start.pointers] == ["published"] * 3
    names.close()


def test_a_stream_that_began_with_a_savepoint_has_its_content(tmp_path: Path) -> None:
    """In a store the files of another job get names of their own."""
    storage = ObjectStorage(bucket := Bucket("s3://data/x", store=MemoryStore()))
    path = tmp_path / "of the host"
    path.write_bytes(b"rows")
    writer = storage.writer("job-1", 3, "a", 0, 0)
    writer.put("own", b"1")
    writer.link("sst", path, "db/1")
    nodes = (NodeRecord("a", "kind", "text"),)
    made = Manifest(
        job="job-1", checkpoint=3, epoch=1, run=0, wall_us=1, nodes=nodes,
        tasks=(TaskSnapshot("a", 0, 0, range(1), writer.finish()),),
    )  # fmt: skip
    storage.commit_manifest(made)
    adopted, _ = ObjectSavepoints(bucket).adopt(
        made, {"a": "a"}, job="job-2", checkpoint=1, nodes=nodes, wall_us=1
    )
    assert adopted.tasks != made.tasks
    assert _content(adopted) == _content(made)
