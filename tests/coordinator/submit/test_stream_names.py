"""What a stream with a name goes on from, and which plans its state is not of."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fabric.checkpoint.manifest import (
    FINAL,
    FileRecord,
    Manifest,
    NodeRecord,
    SinkHandle,
    TaskSnapshot,
)
from fabric.checkpoint.names import HeldName, NameRecord
from fabric.checkpoint.storage import FolderStorage
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.submit.stream_names import StreamNames, check_same
from fabric.errors import ConfigError, DataError, PlanError

FILE = FileRecord("rows", 1, 1)
SCAN = NodeRecord("stream_scan_1", "stream_scan", "streams.generator()")
SINK = NodeRecord("sink_1", "sink", '.write_stream("/out")')
COUNTS = NodeRecord("counts", "stream_aggregate", '.window("1 second").count()')
TOP_1 = NodeRecord("top_n_1", "top_n", ".top_n(3)")
TOP_2 = NodeRecord("top_n_2", "top_n", ".top_n(3)")
SPLITS = {"stream_scan_1": {"0", "1"}}


def manifest(*nodes: NodeRecord, kept: tuple[NodeRecord, ...] | None = None) -> Manifest:
    """Of a plan of these nodes, each of which has kept something, unless others are named."""
    tasks = []
    for node in sorted(nodes if kept is None else kept, key=lambda node: node.path):
        if node.kind == "stream_scan":
            tasks.append(TaskSnapshot(node.path, 0, 0, range(1), positions=(("0", b"7"),)))
        else:
            tasks.append(TaskSnapshot(node.path, 0, 0, range(1), (FILE,)))
    return Manifest(
        job="job-1", checkpoint=5, epoch=1, run=0, wall_us=0, tasks=tuple(tasks),
        nodes=tuple(sorted(nodes, key=lambda node: node.path)),
    )  # fmt: skip


def changed(node: NodeRecord, **fields: str) -> NodeRecord:
    return NodeRecord(**{"path": node.path, "kind": node.kind, "text": node.text, **fields})


WHOLE = (SCAN, COUNTS, SINK)


@pytest.mark.parametrize(
    "nodes",
    [
        WHOLE,
        (changed(SCAN, text="streams.generator(rows_per_s=5)"), COUNTS, SINK),
        (*WHOLE, NodeRecord("filter_1", "filter", ".filter(col('a') > 0)")),
    ],
)
def test_plans_that_the_state_is_of(nodes: tuple[NodeRecord, ...]) -> None:
    check_same("clicks", manifest(*WHOLE), nodes, SPLITS)


@pytest.mark.parametrize(
    ("nodes", "splits", "says"),
    [
        ((SCAN, SINK), SPLITS, r"counts, \.window\(.*, is not in the plan any more"),
        ((SCAN, changed(COUNTS, path="count"), SINK), SPLITS, "counts, .* is not in the plan"),
        (
            (SCAN, changed(COUNTS, text='.window("2 seconds").count()'), SINK), SPLITS,
            r"counts was .*1 second.*, and is .*2 seconds",
        ),
        ((SCAN, changed(COUNTS, kind="top_n"), SINK), SPLITS, "counts was "),
        ((changed(SCAN, kind="scan"), COUNTS, SINK), SPLITS, "stream_scan_1 was "),
        ((COUNTS, SINK), {}, "stream_scan_1, .*, is not in the plan any more"),
        (
            (SCAN, COUNTS, changed(SINK, text='.write_stream("/elsewhere")')), SPLITS,
            "sink_1 was .*/out.*, and is .*/elsewhere",
        ),
        (WHOLE, {"stream_scan_1": {"1"}}, "stream_scan_1 has no split 0 any more"),
    ],
)  # fmt: skip
def test_plans_that_it_is_not_of(
    nodes: tuple[NodeRecord, ...], splits: dict[str, set[str]], says: str
) -> None:
    with pytest.raises(PlanError, match=says) as caught:
        check_same("clicks", manifest(*WHOLE), nodes, splits)
    assert "the stream 'clicks' can't go on from checkpoint 5" in str(caught.value)
    assert 'on_existing="new"' in str(caught.value)


def test_what_has_kept_nothing_may_go() -> None:
    old = manifest(*WHOLE, TOP_1, kept=WHOLE)
    check_same("clicks", old, WHOLE, SPLITS)


def test_numbers_do_not_tell_equal_steps_apart() -> None:
    old = manifest(SCAN, TOP_1, TOP_2)
    check_same("clicks", old, (SCAN, TOP_1, TOP_2), SPLITS)
    grown = (SCAN, TOP_1, TOP_2, COUNTS)
    with pytest.raises(PlanError, match=r"top_n_1, .* one of 2 equal steps: .* \.named"):
        check_same("clicks", old, grown, SPLITS)
    named = [changed(TOP_1, path="a"), changed(TOP_2, path="b")]
    check_same("clicks", manifest(SCAN, *named), (*named, COUNTS, SCAN), SPLITS)


def test_only_some_of_many_differences_are_told() -> None:
    many = tuple(changed(COUNTS, path=f"counts {number}") for number in range(9))
    with pytest.raises(PlanError, match=r"; and 4 more\. Run the program"):
        check_same("clicks", manifest(*many), (), {})


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
