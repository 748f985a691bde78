"""Followed folders whose files lie in folders of columns, and of what format they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import streams
from fabric.errors import DataError, PlanError
from fabric.io.readers import enumerate_stream, open_reader
from fabric.io.readers.protocol import Polled
from fabric.plan.sources import FollowedFiles
from fabric.testing.clock import ManualClock

ROWS = fabric.DataFrame({"k": [1, 2, None], "v": [1, 2, 3], "s": ["x/y", "é", "z"]})
READERS: dict[str, Any] = {
    "parquet": fabric.read_parquet, "csv": fabric.read_csv, "ipc": fabric.read_ipc,
    "json": fabric.read_json,
}  # fmt: skip


def in_order(rows: Any) -> list[dict[str, Any]]:
    return sorted(rows.collect().to_pylist(), key=lambda row: row["v"])


@pytest.mark.parametrize("format", READERS)
def test_folders_of_columns_are_read_as_a_table_reads_them(tmp_path: Path, format: Any) -> None:
    out = tmp_path / "out"
    getattr(ROWS, f"write_{format}")(out, partition_by=["k", "s"])
    expected = READERS[format](out)
    followed = streams.files(out, format=format, until="now")
    assert followed.schema == expected.schema
    assert in_order(followed) == in_order(expected)
    assert [row["s"] for row in in_order(followed)] == ["x/y", "é", "z"]
    schema = {"k": "string", "v": "int64"}
    given = streams.files(out, format=format, schema=schema, until="now", n_splits=2)
    assert in_order(given) == [{"k": k, "v": v} for k, v in (("1", 1), ("2", 2), (None, 3))]
    only = streams.files(out, format=format, until="now").select("k")  # nothing of the files
    assert sorted(map(str, only.collect()["k"].to_pylist())) == ["1", "2", "None"]
    assert in_order(fabric.read_stream(out, until="now")) == in_order(expected)


@pytest.mark.parametrize("format", READERS)
def test_what_a_stream_wrote_into_folders_can_be_followed(tmp_path: Path, format: Any) -> None:
    out = tmp_path / "out"
    numbers = streams.generator(n_rows=40, n_keys=3, n_splits=2).select("key", "row", "split")
    numbers.write_stream(streams.to_files(out, format=format, partition_by="key")).wait()
    columns = ["row", "split", "key"]
    found = streams.files(out, format=format, until="now").select(*columns).collect()
    rows = READERS[format](out).select(*columns).collect()
    assert sorted(found.to_pylist(), key=str) == sorted(rows.to_pylist(), key=str)
    assert found.num_rows == 40


def test_new_folders_are_found_and_a_file_is_read_once_after_a_restart(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("k", pa.string())])
    source, clock = FollowedFiles("parquet", str(tmp_path)), ManualClock()

    def put(folder: str, n: int) -> None:
        (tmp_path / folder).mkdir(exist_ok=True)
        pq.write_table(pa.table({"n": [n]}), tmp_path / folder / "x.parquet")

    def rows(reader: Any) -> list[Any]:
        found = []
        while isinstance(polled := reader.poll(10, 0.0), Polled):
            found += polled.batch.to_pylist()
        return found

    def following(positions: Any) -> Any:
        reader = open_reader(source, schema, clock)
        reader.open(enumerate_stream(source))
        reader.seek(positions)
        return reader

    put("k=a", 1)
    put("_k=b", 2)  # a column whose name begins with an underscore, which the stream lacks
    put(".k=c", 3)
    put("archive", 4)
    (tmp_path / "_k=b").rename(tmp_path / "k=%62")
    reader = following({})
    assert rows(reader) == [{"n": 1, "k": "a"}, {"n": 2, "k": "b"}]
    put("k=d", 5)
    again = following(reader.on_barrier(1))
    assert rows(again) == [{"n": 5, "k": "d"}]


def test_a_folder_whose_value_does_not_fit_is_named(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ROWS.write_parquet(out, partition_by="s")
    with pytest.raises(DataError, match=r"s=x/y of .* not a valid int64; .* type with schema="):
        streams.files(
            out, format="parquet", schema={"v": "int64", "s": "int64"}, until="now"
        ).collect()
    pq.write_table(pa.table({"v": [4]}), out / "plain.parquet")
    os.utime(out / "plain.parquet", (1, 1))
    with pytest.raises(DataError, match=r"has the columns s in its path, .*; say with schema="):
        streams.files(out, format="parquet")
    with pytest.raises(DataError, match=r"plain.parquet has no column 's'"):
        streams.files(
            out, format="parquet", schema={"v": "int64", "s": "string"}, until="now"
        ).collect()


def test_json_is_a_format_and_an_ending(tmp_path: Path) -> None:
    ROWS.write_json(tmp_path / "out")
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "x.csv.gz").write_bytes(b"")
    by_name = fabric.read_stream(tmp_path / "out", format="json", until="now")
    assert in_order(by_name) == in_order(fabric.read_stream(tmp_path / "out", until="now"))
    assert in_order(by_name) == in_order(ROWS)
    assert in_order(streams.files(tmp_path / "out", format="ndjson", until="now")) == in_order(ROWS)
    schema = {"a": "int64"}
    assert fabric.read_stream(tmp_path / "packed", schema=schema, until="now").columns == ["a"]
    with pytest.raises(PlanError, match=r"'jsn' .*; write: format=\"json\""):
        fabric.read_stream(tmp_path / "out", format="jsn")
