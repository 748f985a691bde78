"""One entry an implementation: how its source is made, and what an oracle says it holds."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from fabric.io.readers import generator, stream_schema
from fabric.plan.places import FileFormat
from fabric.plan.sources import (
    FileSource,
    FollowedFiles,
    GeneratorStream,
    NexmarkStream,
    NexmarkTable,
    ReplayStream,
    StreamFormat,
    StreamSource,
)
from tests.support.streams.nexmark_model import model

N_ROWS = 700
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """A bounded source, and the rows of each of its splits in order."""

    source: StreamSource
    schema: pa.Schema
    rows: dict[str, Rows]
    key: str
    """A column to select alone."""


def table(seed: int = 7) -> pa.Table:
    """Rows out of order, with nulls."""
    rng = np.random.default_rng(seed)
    at = rng.integers(0, 10**9, N_ROWS)
    names = ("EWR", "JFK", "LGA", None)
    origin = pa.array([names[i] for i in rng.integers(0, 4, N_ROWS)], pa.string())
    times = pa.array(at, pa.timestamp("us"), mask=rng.random(N_ROWS) < 0.05)
    text = pa.array([f"row {i}" for i in range(N_ROWS)])
    return pa.table({"n": pa.array(range(N_ROWS)), "origin": origin, "at": times, "text": text})


def by_time(rows: Rows) -> Rows:
    """Python's own stable sort; nulls last."""
    return sorted(rows, key=lambda row: (row["at"] is None, row["at"] or 0))


def write(path: Path, rows: pa.Table, format: str) -> None:
    """One file of several units where the format has them."""
    if format == "parquet":
        pq.write_table(rows, path, row_group_size=50)
    elif format == "ipc":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=60)
    elif format == "csv":
        pc.write_csv(rows, path)
    else:
        lines = [json.dumps(row, default=str) for row in rows.to_pylist()]
        path.write_text("\n".join(lines) + "\n")


def generated(folder: Path) -> Case:
    """Rows made one at a time."""
    source = GeneratorStream(n_rows=N_ROWS + 1, n_splits=3, seed=5, start_us=10**15, disorder_us=9)
    rows = {}
    for index in range(3):
        n_rows = len(range(index, N_ROWS + 1, 3))
        found = [generator.rows(source, index, i, i + 1, 10**15) for i in range(n_rows)]
        rows[f"{index}-of-3"] = pa.concat_tables(found).to_pylist()
    return Case(source, generator.SCHEMA, rows, "value")


def nexmark(table_name: NexmarkTable) -> Callable[[Path], Case]:
    """One table of Nexmark, beside the scalar model."""

    def made(folder: Path) -> Case:
        source = NexmarkStream(table_name, n_events=1_234, n_splits=3, seed=3)
        schema = stream_schema(source)
        return Case(source, schema, model(source), schema.names[0])

    return made


def replayed(**options: Any) -> Callable[[Path], Case]:
    """A shuffled table, beside Python's sort."""

    def made(folder: Path) -> Case:
        path = folder / "t.parquet"
        rows = table()
        write(path, rows, "parquet")
        files = FileSource("parquet", (str(path),))
        source = ReplayStream(files, "at", **options)
        listed = rows.to_pylist()
        if not options:
            return Case(source, rows.schema, {"all": by_time(listed)}, "n")
        found: dict[str, Rows] = {}
        for row in by_time(listed):
            name = "null" if row["origin"] is None else f"={row['origin']}"
            found.setdefault(name, []).append(row)
        return Case(source, rows.schema, found, "n")

    return made


def replayed_by_file(format: FileFormat) -> Callable[[Path], Case]:
    """Three files in order."""

    def made(folder: Path) -> Case:
        rows = table().drop_columns(["origin"])  # CSV has no nulls among texts
        found: dict[str, Rows] = {}
        paths = []
        listed = by_time(rows.to_pylist())
        for i in range(3):
            part = pa.Table.from_pylist(listed[i::3], rows.schema)
            path = folder / f"{i}.{format}"
            write(path, part, format)
            paths.append(str(path))
            found[str(path)] = part.to_pylist()
        files = FileSource(format, tuple(paths))
        return Case(ReplayStream(files, "at", by_file=True), rows.schema, found, "n")

    return made


def folder_of(format: StreamFormat, n_splits: int) -> Callable[[Path], Case]:
    """Eight files whose age is not their names' order."""

    def made(folder: Path) -> Case:
        rows = table().drop_columns(["origin"])
        found: dict[str, Rows] = {f"{i}-of-{n_splits}": [] for i in range(n_splits)}
        for i in range(8):
            part, path = rows.slice(i * 80, 80), folder / f"part-{7 - i}.{format}"
            write(path, part, format)
            os.utime(path, ns=(i, i))
            split = zlib.crc32(path.name.encode()) % n_splits
            found[f"{split}-of-{n_splits}"] += part.to_pylist()
        (folder / "_hidden").write_text("no rows")
        source = FollowedFiles(format, str(folder), until="now", n_splits=n_splits)
        return Case(source, rows.schema, found, "n")

    return made


def growing(format: StreamFormat) -> Callable[[Path], Case]:
    """One file as long as it is now."""

    def made(folder: Path) -> Case:
        rows, path = table().drop_columns(["origin"]), folder / "log"
        write(path, rows, format)
        source = FollowedFiles(format, str(path), grows=True, until="now")
        return Case(source, rows.schema, {"0-of-1": rows.to_pylist()}, "n")

    return made


CASES: dict[str, Callable[[Path], Case]] = {
    "generator": generated,
    **{f"nexmark {name}": nexmark(name) for name in get_args(NexmarkTable)},
    "replay": replayed(),
    "replay by a column": replayed(split_by="origin"),
    **{f"replay by {name} file": replayed_by_file(name) for name in get_args(FileFormat)},
    **{f"folder of {name}": folder_of(name, 2) for name in get_args(StreamFormat)},
    "growing csv": growing("csv"),
    "growing ndjson": growing("ndjson"),
}
