"""Files in a real object store as sources: what is read, how little of it, and what is refused.

pyarrow writes them, and reads them by the folder behind the store as the judge.
"""

from __future__ import annotations

import gzip
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import col
from fabric.errors import ConfigError, DataError, NotFoundError, StorageError
from fabric.io import object_files
from fabric.io.sinks.json_texts import lines
from fabric.object_store import PART_BYTES, Bucket
from tests.support.buckets import put, url_of
from tests.support.local import local_fabric

N_ROWS = 1_000
ROWS = pa.table(
    {
        "id": range(N_ROWS),
        "k": [f"k{n % 7}" for n in range(N_ROWS)],
        "v": [n / 4 if n % 5 else None for n in range(N_ROWS)],
    }
)


def saved(bucket: Path, key: str, rows: pa.Table = ROWS, **options: Any) -> str:
    """Have the store hold a file; returns its URL."""
    file = BytesIO()
    match key.rpartition(".")[2]:
        case "parquet":
            pq.write_table(rows, file, **options)
        case "csv":
            pc.write_csv(rows, file)
        case "arrow":
            with pa.ipc.new_file(file, rows.schema) as writer:
                writer.write_table(rows, max_chunksize=300)
        case _:
            file.write(b"".join(map(lines, rows.to_batches())))
    return put(bucket, key, file.getvalue())


def ids(frame: fabric.DataFrame) -> list[int]:
    return sorted(frame.collect()["id"].to_pylist())


READS = {
    "parquet": fabric.read_parquet, "csv": fabric.read_csv, "ndjson": fabric.read_json,
    "arrow": fabric.read_ipc,
}  # fmt: skip


@pytest.mark.parametrize("ending", READS)
def test_a_file_is_what_it_is_on_disk(bucket: Path, ending: str) -> None:
    url, read = saved(bucket, f"x/a.{ending}"), READS[ending]
    for place in (url, Path(url), [url], url_of(bucket, "x"), url_of(bucket, "x/")):
        assert read(place).collect().equals(read(bucket / f"x/a.{ending}").collect())
    counts = read(url).filter(col("id") >= 500).group_by("k").agg(n=col("v").count())
    known = ROWS.filter(pa.compute.field("id") >= 500).group_by("k").aggregate([("v", "count")])
    assert {row["k"]: row["n"] for row in counts.to_dicts()} == dict(
        zip(known["k"].to_pylist(), known["v_count"].to_pylist(), strict=True)
    )
    assert read(url).count() == N_ROWS


@pytest.mark.parametrize("ending", READS)
def test_agents_read(bucket: Path, ending: str) -> None:
    for number in range(3):
        saved(bucket, f"x/{number}.{ending}", ROWS.slice(number * 100, 100))
    with (
        local_fabric(2) as running,
        fabric.connect(f"fabric://{running.address}", token=running.token) as session,
    ):
        read = getattr(session, READS[ending].__name__)
        assert ids(read(url_of(bucket, "x"))) == list(range(300))


def test_folders_patterns_and_columns_of_folders(bucket: Path) -> None:
    for year in (2023, 2024):
        for k in ("a b", "x/y"):
            key = f"sales/year={year}/k={k.replace('/', '%2F')}/part [1].parquet"
            saved(bucket, key, ROWS.slice(year - 2023, 2).select(["id"]))
    saved(bucket, "sales/_temporary/0/part.parquet")
    saved(bucket, "sales/.hidden.parquet")
    saved(bucket, "sales2/other.parquet")
    put(bucket, "sales/_SUCCESS", b"")
    judge = ds.dataset(bucket / "sales", partitioning="hive").to_table()
    for place in ("sales", "sales/", "sales/**", "sales/**/*.parquet", "s*s/**/part*", "sales/y*"):
        found = fabric.read_parquet(url_of(bucket, place))
        local = fabric.read_parquet(bucket / place)
        assert found.collect().sort_by("id").equals(local.collect().sort_by("id")), place
    assert ids(fabric.read_parquet(url_of(bucket, "sales"))) == sorted(judge["id"].to_pylist())
    late = fabric.read_parquet(url_of(bucket, "sales")).filter(col("year") == 2024)
    assert {row["k"] for row in late.to_dicts()} == {"a b", "x/y"}
    one = fabric.read_parquet(url_of(bucket, "sales/year=*/k=a b/*"), hive={"year": "string"})
    assert {row["year"] for row in one.to_dicts()} == {"2023", "2024"}
    assert fabric.read_parquet(f"s3://{bucket.name}/**/other.parquet").count() == N_ROWS


def test_no_more_is_read_than_is_wanted(bucket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = pa.table({f"c{n}": range(n, n + 200_000) for n in range(10)})
    options: dict[str, Any] = {"row_group_size": 20_000, "use_dictionary": False}
    url = saved(bucket, "wide.parquet", wide, **options)
    size = (bucket / "wide.parquet").stat().st_size
    read: list[int] = []
    real = Bucket.part

    def watched(self: Bucket, key: str, start: int, end: int, e_tag: str = "") -> Any:
        read.append(end - start)
        return real(self, key, start, end, e_tag)

    monkeypatch.setattr(Bucket, "part", watched)
    frame = fabric.read_parquet(url)
    assert sum(read) < 200_000  # the footer
    read.clear()
    some = frame.filter(col("c3") >= 190_000).select("c3", "c4")
    assert some.count() == 10_003
    assert len(read) <= 2
    assert sum(read) < size / 50, (read, size)
    read.clear()
    assert sorted(some.collect()["c4"].to_pylist())[0] == 190_001
    assert sum(read) < size / 20


def test_large_objects_are_read_in_parts(bucket: Path) -> None:
    n_rows = 5 * PART_BYTES // 16
    rows = pa.table({"id": range(n_rows), "h": [n * 2654435761 % 2**31 for n in range(n_rows)]})
    for ending in ("csv", "parquet"):
        url = saved(bucket, f"large.{ending}", rows)
        assert (bucket / f"large.{ending}").stat().st_size > PART_BYTES
        found = READS[ending](url).agg(n=col("id").count(), s=col("h").sum()).to_dicts()
        assert found == [{"n": n_rows, "s": pa.compute.sum(rows["h"]).as_py()}]


def test_text_that_is_packed(bucket: Path) -> None:
    url = put(bucket, "a.csv.gz", gzip.compress(b"id,t\n1,x\n2,y\n"))
    assert ids(fabric.read_csv(url)) == [1, 2]


@pytest.mark.parametrize("ending", READS)
@pytest.mark.parametrize("by_file", [True, False])
def test_a_replay_in_order(bucket: Path, ending: str, by_file: bool) -> None:
    url = saved(bucket, f"x/a.{ending}")
    rows = fabric.streams.replay(READS[ending](url), time="id", by_file=by_file).collect()
    assert rows["id"].to_pylist() == list(range(N_ROWS))


def test_what_is_not_there(bucket: Path) -> None:
    saved(bucket, "x/a.parquet")
    for key, said in (
        ("y/a.parquet", "there is no object s3://"), ("x/b*.parquet", "no object matches s3://"),
        ("x/a.parquet/y", "there is no object s3://"), ("", "holds no"),
    ):  # fmt: skip
        read = fabric.read_csv if not key else fabric.read_parquet
        with pytest.raises(NotFoundError, match=said):
            read(url_of(bucket, key))
    with pytest.raises(StorageError, match="there is no such bucket; create it"):
        fabric.read_parquet("s3://no-such-bucket-here/x.parquet")
    with pytest.raises(ConfigError, match="not the URL of an object") as caught:
        fabric.read_parquet("s3://key:topsecret@bucket/x.parquet")
    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize("ending", READS)
def test_a_wrong_secret(bucket: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    url = saved(bucket, f"a.{ending}")
    frame = READS[ending](url)
    assert "fabric-secret" not in frame.explain()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
    for use in (lambda: READS[ending](url), frame.collect):
        with pytest.raises(StorageError, match=r"the store refuses \(status 403") as caught:
            use()
        assert "wrong-secret" not in str(caught.value)
    monkeypatch.undo()
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_an_object_that_changes(bucket: Path) -> None:
    url = saved(bucket, "a.parquet")
    frame = fabric.read_parquet(url)
    saved(bucket, "a.parquet", ROWS.slice(0, 10))
    assert frame.collect().num_rows == 10
    saved(bucket, "a.parquet", ROWS.select(["k"]))
    with pytest.raises(DataError, match="has changed since the plan was made"):
        frame.collect()
    with object_files.opened(url) as file:
        saved(bucket, "a.parquet", ROWS.slice(0, 20))
        with pytest.raises(DataError, match="was replaced while it was read"):
            file.read()
    (bucket / "a.parquet").unlink()
    with pytest.raises(NotFoundError, match=r"a.parquet in s3://.* is missing"):
        frame.collect()


def test_what_is_no_such_file(bucket: Path) -> None:
    for ending, read in READS.items():
        url = put(bucket, f"bad.{ending}", b'\x00{"a": [1' * 100)
        with pytest.raises(DataError, match=rf"s3://.*/bad.{ending} "):
            read(url).collect()
