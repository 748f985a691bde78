"""Partitions copied from another owner, and taken away from one: durable, at once, nothing else."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pytest

from fabric.agent.transfers import DatasetReplication
from fabric.control import control_pb2 as pb
from fabric.errors import DataError, NotFoundError, PartitionLostError, StorageError
from fabric.flight.descriptor import PutPath
from fabric.flight.inprocess import InProcessTransport
from fabric.flight.ticket import DatasetRequest, Part
from fabric.io.dataset.access import DatasetFiles

SCHEMA = pa.schema([("k", pa.int64())])
PARTS = (Part("tx-1", "w", 0), Part("tx-1", "w-0.p00001", 3), Part("tx-2", "w", 0))
ALL = {p: [10 * n + p for n in range(len(PARTS))] for p in range(3)}


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"k": list(values)}, SCHEMA)


def request(partition: int, parts: tuple[Part, ...] = PARTS) -> DatasetRequest:
    return DatasetRequest(name="d", version=1, partition=partition, parts=parts)


def seal(files: DatasetFiles, *partitions: int) -> DatasetFiles:
    """One row a part and partition."""
    for n, part in enumerate(PARTS):
        put = PutPath("d", part.transaction, part.writer, part.attempt)
        writer = files.open_write(put, SCHEMA)
        for partition in partitions:
            writer.write(partition, batch(10 * n + partition))
        writer.seal()
    return files


def values(files: DatasetFiles, partition: int, parts: tuple[Part, ...] = PARTS) -> list[int]:
    return [v for b in files.read(request(partition, parts)) for v in b["k"].to_pylist()]


def names(files: DatasetFiles) -> set[str]:
    return {str(p.relative_to(files.root)) for p in files.root.rglob("*") if p.is_file()}


class Pair:
    """An owner of partitions 0 to 2, and an agent that is to copy from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.transport = InProcessTransport()
        self.owner = seal(DatasetFiles(folder / "owner", "owner"), 0, 1, 2)
        self.files = DatasetFiles(folder / "copier", "copier")
        self.transport.register("local:owner", None, self.owner)  # type: ignore[arg-type]
        self.stopping = False

    def reopen(self) -> None:
        """The copier was killed and is started again."""
        self.files = DatasetFiles(self.folder / "copier", "copier")

    @property
    def copying(self) -> DatasetReplication:
        return DatasetReplication(self.files, self.transport, lambda: self.stopping)

    def order(self, partition: int, *sources: str) -> pb.Replicate:
        at = [pb.ReplicaSource(agent_id=s, address=f"local:{s}") for s in sources or ("owner",)]
        return pb.Replicate(
            number=1, dataset="d", version=1, partition=partition,
            schema=SCHEMA.serialize().to_pybytes(), parts=committed(), sources=at,
        )  # fmt: skip

    def keep(self, *partitions: int) -> None:
        self.copying.keep(pb.KeepPartitions(dataset="d", partitions=partitions, parts=committed()))


def committed() -> list[pb.CommittedPart]:
    return [
        pb.CommittedPart(transaction=p.transaction, writer=p.writer, attempt=p.attempt)
        for p in PARTS
    ]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_a_copy_lies_beside_what_was_written_here(pair: Pair) -> None:
    seal(pair.files, 0)
    assert not pair.files.has(request(1))
    before = names(pair.files)
    pair.copying.replicate(pair.order(1))
    assert pair.files.has(request(1))
    assert before < names(pair.files)
    for _ in range(2):
        assert values(pair.files, 0) == ALL[0]
        assert values(pair.files, 1) == ALL[1]
        with pytest.raises(PartitionLostError, match=r"partition 2 of dataset 'd'.* not belong to"):
            values(pair.files, 2)
        pair.reopen()


def test_a_partition_without_rows_is_there_once_it_was_copied(pair: Pair) -> None:
    part = Part("tx-3", "none", 0)
    writer = pair.owner.open_write(PutPath("d", "tx-3", "none", 0), SCHEMA)
    writer.write(1, batch())
    writer.seal()
    order = pair.order(1)
    order.parts.add(transaction="tx-3", writer="none")
    pair.copying.replicate(order)
    assert values(pair.files, 1, (*PARTS, part)) == ALL[1]


def test_an_order_may_be_repeated(pair: Pair) -> None:
    pair.copying.replicate(pair.order(1))
    files = names(pair.files)
    pair.copying.replicate(pair.order(1, "nobody"))  # nothing is asked for
    assert names(pair.files) == files


def test_the_next_source_is_asked(pair: Pair) -> None:
    bad = seal(DatasetFiles(pair.folder / "bad", "bad"), 1)
    pair.transport.register("local:bad", None, bad)  # type: ignore[arg-type]
    for file in bad.root.rglob("p*.arrows"):
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DataError, match="is cut short"):
        pair.copying.replicate(pair.order(1, "gone", "bad"))
    order = pair.order(1)
    del order.sources[:]
    with pytest.raises(PartitionLostError, match="partition 1 of dataset 'd' has no source"):
        pair.copying.replicate(order)
    assert names(pair.files) == set()
    pair.copying.replicate(pair.order(1, "gone", "bad", "owner"))
    assert values(pair.files, 1) == ALL[1]


def test_what_was_cut_off_leaves_nothing(pair: Pair) -> None:
    pair.stopping = True
    with pytest.raises(StorageError, match="shutting down"):
        pair.copying.replicate(pair.order(1))
    assert names(pair.files) == set()
    pair.stopping = False
    for step in ("mkdir", "write", "sync", "rename"):
        pair.files.native.fail_at(step, errno.ENOSPC)
        with pytest.raises(StorageError, match="No space left on device"):
            pair.copying.replicate(pair.order(1))
        pair.files.native.fail_at(step, 0)
        assert not pair.files.has(request(1))
    pair.copying.replicate(pair.order(1))
    assert values(pair.files, 1) == ALL[1]


def test_a_copy_that_was_never_sealed_goes_at_the_next_start(pair: Pair) -> None:
    writer = pair.files.open_copy(request(1, PARTS[:1]), SCHEMA)
    writer.write(1, batch(1))
    assert any(".p00001-" in name for name in names(pair.files))
    pair.reopen()
    assert names(pair.files) == set()


def test_a_copy_of_a_dropped_dataset_is_refused(pair: Pair) -> None:
    pair.files.discard("d", "tx-2")
    with pytest.raises(NotFoundError, match=r"put d/tx-2/w#0.p00001 comes too late"):
        pair.copying.replicate(pair.order(1))


def test_partitions_that_others_own_go_and_nothing_else(pair: Pair) -> None:
    seal(pair.files, 0, 2)
    pair.copying.replicate(pair.order(1))
    others = (Part("tx-9", "w", 0), Part("tx-1", "w-0.p00001", 4))  # that are not named
    for part in others:
        writer = pair.files.open_write(
            PutPath("d", part.transaction, part.writer, part.attempt), SCHEMA
        )
        writer.write(0, batch(7))
        writer.seal()
    pair.keep(0, 1, 2)
    assert [values(pair.files, p) for p in range(3)] == [ALL[0], ALL[1], ALL[2]]
    pair.keep(1, 2)
    for _ in range(2):
        assert not pair.files.has(request(0))
        assert [values(pair.files, p) for p in (1, 2)] == [ALL[1], ALL[2]]
        pair.reopen()
    pair.keep(0)
    assert values(pair.files, 0, others) == [7, 7]
    assert len(names(pair.files)) == 2 * len(others)
    pair.copying.replicate(pair.order(2))
    assert values(pair.files, 2) == ALL[2]


def test_what_a_crash_left_of_a_removal_goes_with_the_next(pair: Pair) -> None:
    seal(pair.files, 0, 1)
    pair.keep(1)
    before = names(pair.files)
    for folder in {file.parent for file in pair.files.root.rglob("p*.arrows")}:
        (folder / "p00000.arrows").write_bytes(b"left")
    pair.keep(1)
    assert names(pair.files) == before
    assert values(pair.files, 1) == ALL[1]


def test_a_reader_goes_on_while_its_partition_goes(pair: Pair) -> None:
    seal(pair.files, 0, 1)
    rows = pair.files.read(request(0))
    pair.keep(1)
    assert [v for b in rows for v in b["k"].to_pylist()] == ALL[0]


def test_beside_a_damaged_manifest_nothing_goes(pair: Pair) -> None:
    seal(pair.files, 0)
    manifest = pair.files.root / "d" / "tx-2" / "w-0.manifest"
    manifest.write_bytes(manifest.read_bytes().replace(b'"rows"', b'"rowz"'))
    pair.keep(1)
    assert all(name.startswith("d/tx-2/w-0") for name in names(pair.files))
    assert len(names(pair.files)) == 2
    with pytest.raises(DataError, match="manifest is damaged"):
        values(pair.files, 0, PARTS[2:])


def test_a_failing_disk_keeps_a_partition_whole_or_gone(pair: Pair) -> None:
    seal(pair.files, 0, 1)
    for step in ("write", "sync", "rename"):
        pair.files.native.fail_at(step, errno.EIO)
        with pytest.raises(StorageError, match="can't remove partitions of 'd'"):
            pair.keep(1)
        pair.files.native.fail_at(step, 0)
        assert values(pair.files, 1) == ALL[1]
    pair.keep(1)
    assert not pair.files.has(request(0))
    assert values(pair.files, 1) == ALL[1]
