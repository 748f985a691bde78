"""Text files that are compressed because their name says so."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import fabric
from fabric import streams
from fabric.errors import PlanError

FRAME = fabric.DataFrame({"n": range(5_000), "s": [None, "é", "x,\ny", ""] * 1_250})
READ: dict[str, Any] = {"csv": fabric.read_csv, "json": fabric.read_json}


@pytest.mark.parametrize("packed", ["gz", "bz2", "zst", "lz4"])
@pytest.mark.parametrize("format", READ)
def test_a_file_is_compressed_by_its_ending(format: str, packed: str, tmp_path: Path) -> None:
    plain, path = tmp_path / f"plain.{format}", tmp_path / f"x.{format}.{packed}"
    for to in (plain, path):
        getattr(FRAME, f"write_{format}")(to)
    assert path.is_file()
    assert path.stat().st_size < plain.stat().st_size / 2
    assert READ[format](path).sort("n").to_dicts() == FRAME.collect().to_pylist()
    if packed in ("gz", "bz2"):
        unpack = {"gz": gzip.decompress, "bz2": bz2.decompress}[packed]
        assert unpack(path.read_bytes()) == plain.read_bytes()
        read: Any = pd.read_csv if format == "csv" else pd.read_json
        found = read(path, **({} if format == "csv" else {"lines": True}))
        assert found["n"].to_list() == list(range(5_000))
    if packed in ("gz", "zst") and format == "csv":
        assert pl.read_csv(path).equals(pl.read_csv(plain))


def test_an_array_is_compressed_and_whole(tmp_path: Path) -> None:
    FRAME.write_json(tmp_path / "x.json.gz", lines=False)
    assert fabric.read_json(tmp_path / "x.json.gz").count() == 5_000
    FRAME.limit(0).write_json(tmp_path / "empty.json.gz", lines=False)
    assert gzip.decompress((tmp_path / "empty.json.gz").read_bytes()) == b"[]\n"


@pytest.mark.parametrize(
    ("format", "name", "todo"),
    [
        ("csv", "x.csv.zip", r"write: '.*/x\.csv\.gz'"),
        ("csv", "x.csv.GZ", r"write: '.*/x\.csv\.gz'"),
        ("json", "x.jsonl.br", r"write: '.*/x\.jsonl\.gz'"),
        ("json", "x.xz", r"write: '.*/x\.json\.gz'"),
        ("parquet", "x.parquet.gz", r"write: '.*/x\.parquet', compression=\"gzip\""),
        ("ipc", "x.zst", r"write: '.*/x\.arrow', compression=\"zstd\""),
        ("ipc", "x.arrow.gz", r"write: '.*/x\.arrow', compression=\"zstd\""),
    ],
)
def test_endings_that_would_be_folders_are_refused(
    format: str, name: str, todo: str, tmp_path: Path
) -> None:
    write: Any = getattr(FRAME, f"write_{format}")
    with pytest.raises(PlanError, match=todo) as caught:
        write(tmp_path / name)
    assert not list(tmp_path.iterdir())
    eval("write(" + caught.value.message.partition("write: ")[2] + ")", {"write": write})
    assert [path.is_file() for path in tmp_path.iterdir()] == [True]


def test_a_packed_file_is_one_file_and_a_stream_s_folder_is_none(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"is one file, .* name a folder: '.*/x'"):
        FRAME.write_csv(tmp_path / "x.csv.gz", partition_by="s")
    rows = streams.generator(n_rows=4)
    rows.write_stream(streams.to_files(tmp_path / "out.csv.gz", format="csv")).wait()
    assert fabric.read_csv(tmp_path / "out.csv.gz").count() == 4
