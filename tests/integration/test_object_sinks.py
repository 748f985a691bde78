"""Files that are written to a real object store: whole or not there, whatever fails.

pyarrow and DuckDB read them again, by the folder behind the store.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import fabric
from fabric import col, object_store
from fabric.errors import FabricError, PlanError, StorageError
from fabric.ids import TaskId
from fabric.io import object_files, sinks
from fabric.object_store import PART_BYTES
from fabric.plan.targets import FileMode, FileTarget
from tests.support.buckets import Crash, crash_at, keys, put, unfinished, url_of
from tests.support.local import local_fabric
from tests.support.wait import wait_until

N_ROWS = 1_000
ROWS = pa.table({"id": range(N_ROWS), "k": [f"k{n % 3}" for n in range(N_ROWS)]})
WRITES = {"parquet": "parquet", "csv": "csv", "json": "json", "ipc": "arrow"}


def frame(rows: pa.Table = ROWS) -> fabric.DataFrame:
    return fabric.DataFrame(rows)


def seen(bucket: Path, key: str = "out", format: str = "parquet") -> list[int]:
    rows = ds.dataset(bucket / key, schema=ROWS.schema, format=format).to_table()
    return sorted(rows["id"].to_pylist())


@pytest.mark.parametrize("format", WRITES)
def test_folders_and_single_files(bucket: Path, format: str) -> None:
    write, read = getattr(frame(), f"write_{format}"), getattr(fabric, f"read_{format}")
    assert write(url_of(bucket, "a/out")).rows == N_ROWS
    assert write(url_of(bucket, f"a/one.{WRITES[format]}")).rows == N_ROWS
    assert read(url_of(bucket, "a/out")).sort("id").collect().equals(ROWS)
    assert read(url_of(bucket, f"a/one.{WRITES[format]}")).sort("id").collect().equals(ROWS)
    if format != "ipc":
        (n_rows,) = duckdb.sql(f"SELECT count(*) FROM '{bucket}/a/out/*.{format}'").fetchall()
        assert n_rows == (N_ROWS,)
    assert {key.split("/")[1] for key in keys(bucket)} == {"out", f"one.{WRITES[format]}"}
    assert "a/out/_SUCCESS" in keys(bucket)
    with pytest.raises(PlanError, match=r'exists already; write with mode="overwrite" or "append"'):
        write(url_of(bucket, "a/out"))
    with pytest.raises(PlanError, match=r'exists already; write with mode="overwrite", or'):
        write(url_of(bucket, f"a/one.{WRITES[format]}"))


def test_modes_and_folders_of_columns(bucket: Path) -> None:
    url = url_of(bucket, "out")
    frame().write_parquet(url, partition_by="k", max_rows_per_file=100)
    assert {key.split("/")[1] for key in keys(bucket)} == {"k=k0", "k=k1", "k=k2", "_SUCCESS"}
    assert fabric.read_parquet(url).filter(col("k") == "k1").count() == 333
    frame().write_parquet(url, partition_by="k", mode="append")
    assert seen(bucket) == sorted([*range(N_ROWS)] * 2)
    with pytest.raises(PlanError, match="is partitioned by k; append with"):
        frame().write_parquet(url, mode="append")
    frame(ROWS.slice(5, 10)).write_parquet(url, mode="overwrite")
    assert seen(bucket) == list(range(5, 15))
    with pytest.raises(PlanError, match="these rows don't fit"):
        frame(ROWS.select(["k"])).write_parquet(url, mode="append")
    frame(ROWS.slice(0, 0)).write_parquet(url, mode="overwrite", partition_by="k")
    assert keys(bucket) == ["out/_SUCCESS"]
    put(bucket, "out/notes.txt", b"mine")
    with pytest.raises(PlanError, match=r"holds more than data files: notes.txt; .*force=True"):
        frame().write_parquet(url, mode="overwrite")
    frame().write_parquet(url, mode="overwrite", force=True)
    assert "out/notes.txt" not in keys(bucket)
    single = url_of(bucket, "one.csv")
    for rows in (ROWS, ROWS.slice(0, 3)):
        frame(rows).write_csv(single, mode="overwrite")
    assert (bucket / "one.csv").read_text() == '"id","k"\n0,"k0"\n1,"k1"\n2,"k2"\n'


def test_places_that_can_not_be_written(bucket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(bucket, "x/a.parquet", b"1")
    with pytest.raises(PlanError, match="can't write a whole bucket; name a prefix in it"):
        frame().write_parquet(url_of(bucket))
    put(bucket, "y", b"1")
    put(bucket, "z.parquet/a.parquet", b"1")
    for key, mode, said in (
        ("y", "overwrite", "is an object, not a prefix of parts"),
        ("z.parquet", "overwrite", "objects lie below"),
        ("n.parquet", "append", r"is one file.*name a folder: 's3://.*/n'"),
    ):
        with pytest.raises(PlanError, match=said):
            frame().write_parquet(url_of(bucket, key), mode=mode)  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="there is no such bucket; create it"):
        frame().write_parquet("s3://no-such-bucket-here/x")
    with pytest.raises(PlanError, match=r"write_csv can't reach hdfs:.*or objects of s3://"):
        frame().write_csv("hdfs://h/x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
    with pytest.raises(StorageError, match=r"the store refuses \(.*403") as caught:
        frame().write_parquet(url_of(bucket, "out"))
    assert "wrong-secret" not in str(caught.value)


def test_large_parts_are_uploaded_in_parts(bucket: Path) -> None:
    n_rows = 3 * PART_BYTES // 8
    rows = pa.table({"id": pa.array(range(n_rows))})
    frame(rows).write_ipc(url_of(bucket, "large.arrow"))
    assert (bucket / "large.arrow").stat().st_size > 3 * PART_BYTES
    assert pa.ipc.open_file(bucket / "large.arrow").read_all().equals(rows)
    assert not unfinished(bucket)


def test_a_failed_write_leaves_nothing(bucket: Path) -> None:
    def breaks(batch: pa.RecordBatch) -> pa.RecordBatch:
        if 900 in batch["id"].to_pylist():
            raise ValueError("broken row")
        return batch

    put(bucket, "old/a.parquet", b"")
    with fabric.connect() as session:
        rows = session.read_arrow(ROWS).map_batches(breaks, {"id": "int64", "k": "string"})
        for place in ("out", "one.parquet"):
            with pytest.raises(FabricError, match="broken row"):
                rows.write_parquet(url_of(bucket, place))
        with pytest.raises(FabricError, match="broken row"):
            rows.write_parquet(url_of(bucket, "old"), mode="overwrite")
    assert keys(bucket) == ["old/a.parquet"]
    assert not unfinished(bucket)


def test_a_cancelled_write_leaves_nothing(bucket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store may never answer a request amid which it is told to drop the upload."""
    monkeypatch.setattr(object_store, "REQUEST_S", 5.0)
    rows = pa.table({"id": pa.array(range(2_000_000))})
    with fabric.connect() as session:
        many = session.read_arrow(rows)
        for _ in range(6):
            many = many.union(many)
        for place in ("out", "one.arrow"):
            job = many.write_ipc(url_of(bucket, place), wait=False)
            while not unfinished(bucket):
                assert job.state in ("queued", "running")
            assert job.cancel().state == "cancelled"
            wait_until(lambda: not unfinished(bucket) and not keys(bucket), 60)


def test_agents_write(bucket: Path) -> None:
    url = url_of(bucket, "out")
    with (
        local_fabric(2) as running,
        fabric.connect(f"fabric://{running.address}", token=running.token) as session,
    ):
        session.read_arrow(ROWS).write_parquet(url)
        assert seen(bucket) == list(range(N_ROWS))
        session.read_parquet(url).write_parquet(url, mode="append")
    assert seen(bucket) == sorted([*range(N_ROWS)] * 2)
    assert not [key for key in keys(bucket) if "/." in f"/{key}"]


def prepared(url: str, mode: FileMode, *, single: bool) -> tuple[FileTarget, list[bytes]]:
    target = FileTarget("parquet", url, single=single, mode=mode)
    handles = []
    for number in range(1 if single else 3):
        sink = sinks.open_sink(target, ROWS.schema, TaskId("job-1", 0, number, 1), 1)
        for batch in ROWS.slice(number * 10, 10).to_batches():
            sink.write(batch)
        handles.append(sink.prepare())
    return target, handles


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("mode", ["error", "overwrite", "append"])
def test_publish_goes_on_or_is_undone_wherever_it_broke_off(
    bucket: Path, monkeypatch: pytest.MonkeyPatch, mode: FileMode, single: bool
) -> None:
    if single and mode == "append":
        return
    old = ROWS.slice(500, 5) if mode != "error" else None
    kept = [] if old is None else old["id"].to_pylist()
    new = list(range(10 if single else 30))
    expected = sorted(kept + new) if mode == "append" else new
    for step in range(40):
        name = f"out{step}" + (".parquet" if single else "")
        if old is not None:
            frame(old).write_parquet(url_of(bucket, name))
        before = [key for key in keys(bucket) if f"out{step}" in key]
        target, handles = prepared(url_of(bucket, name), mode, single=single)
        undone = step % 2 == 1
        done = True
        with monkeypatch.context() as patch:
            crash_at(patch, step)
            try:
                sinks.publish(handles)
            except Crash:
                done = False
        if not done and undone:
            sinks.abandon(handles)
            now = seen(bucket, name) if before or keys_of(bucket, name) else []
            assert now in (kept, expected), (step, now)
            if mode == "error":
                assert keys_of(bucket, name) == []
        else:
            sinks.publish(handles)
            sinks.publish(handles)
            assert seen(bucket, name) == expected, step
        sinks.discard(target, "job-1", 0)
        assert not [key for key in keys(bucket) if key.startswith(".")]
        if done:
            assert step > 2
            return
    raise AssertionError("it never comes to an end")


def keys_of(bucket: Path, name: str) -> list[str]:
    return [key for key in keys(bucket) if key == name or key.startswith(f"{name}/")]


def test_what_somebody_made_meanwhile_is_kept(bucket: Path) -> None:
    for single in (True, False):
        name = "a.parquet" if single else "a"
        _, handles = prepared(url_of(bucket, name), "error", single=single)
        mine = name if single else f"{name}/mine.parquet"
        put(bucket, mine, b"mine")
        with pytest.raises(PlanError, match="was made by somebody else meanwhile; it is kept"):
            sinks.publish(handles)
        sinks.abandon(handles)
        assert (bucket / mine).read_bytes() == b"mine"
    assert keys(bucket) == ["a.parquet", "a/mine.parquet"]


def test_an_upload_is_there_whole_or_not_at_all(bucket: Path) -> None:
    for n_bytes in (10, PART_BYTES + 1, 3 * PART_BYTES):
        upload = object_files.Upload(url_of(bucket, f"{n_bytes}"))
        upload.write(b"a" * n_bytes)
        assert keys(bucket) == []
        upload.abandon()
        upload.close()
        with pytest.raises(ValueError, match="was abandoned"):
            upload.write(b"b")
        wait_until(lambda: not keys(bucket) and not unfinished(bucket))
        upload = object_files.Upload(url_of(bucket, f"whole-{n_bytes}"))
        upload.write(b"a" * n_bytes)
        upload.close()
        assert (bucket / f"whole-{n_bytes}").read_bytes() == b"a" * n_bytes
        upload.abandon()
        wait_until(lambda: not keys(bucket))


def test_parts_on_their_way_are_not_left_either(bucket: Path) -> None:
    """A store may keep a part that it was sent before the upload was given up."""
    rng = random.Random(5)

    def write(upload: object_files.Upload) -> None:
        with suppress(ValueError):  # it was abandoned
            for _ in range(12):
                upload.write(b"a" * (PART_BYTES - 1))
            upload.close()

    for turn in range(6):
        uploads = [object_files.Upload(url_of(bucket, f"{turn}-{n}")) for n in range(8)]
        with ThreadPoolExecutor(len(uploads)) as pool:
            for upload in uploads:
                pool.submit(write, upload)
            for upload in uploads:
                time.sleep(rng.random() * 0.1)
                upload.abandon()
        wait_until(lambda: not keys(bucket) and not unfinished(bucket))


def test_a_killed_program_leaves_nothing_that_is_seen(bucket: Path) -> None:
    program = f"""
import fabric, os, signal, pyarrow as pa
from fabric.io.object_files import Upload
upload = Upload({url_of(bucket, "out/a.parquet")!r})
upload.write(b"x" * {3 * PART_BYTES})
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert keys(bucket) == []
