"""IPC files: rows belong to who reads them, whatever becomes of the file."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fabric
from fabric.errors import DataError
from fabric.io.files.ipc import is_compressed, read_bounded, read_units

TABLE = pa.table({"a": range(10_000), "s": [str(i) for i in range(10_000)]})


def write(path, table, compression=None, rows=None, mode="wb"):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with open(path, mode) as file, pa.ipc.new_file(file, table.schema, options=options) as writer:
        writer.write_table(table, rows)


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("columns", [["a", "s"], ["s"], ["s", "a"]])
def test_what_is_read_is_in_memory(tmp_path, compression, columns):
    path = str(tmp_path / "x.arrow")
    write(path, TABLE, compression)
    assert is_compressed(path) is (compression is not None)
    before, wanted = pa.total_allocated_bytes(), TABLE.select(columns)
    (batch,) = read_units(path, {}, wanted.schema, 0, 0)
    assert pa.total_allocated_bytes() - before >= wanted.nbytes
    assert batch.equals(wanted.to_batches()[0])


def test_rows_stay_when_a_file_is_written_over_in_place(tmp_path):
    path = str(tmp_path / "x.arrow")
    write(path, TABLE)
    source = fabric.read_ipc(path)
    result, cached = source.collect(), source.cache()
    grouped = source.group_by("s").agg(n=fabric.col("a").sum()).cache()
    bounded = list(read_bounded(path, TABLE.schema, 0, 0))
    other = pa.table({"a": [-1] * 10_000, "s": ["-" * len(s) for s in TABLE["s"].to_pylist()]})
    write(path, other, mode="r+b")
    assert fabric.read_ipc(path).collect().equals(other)
    assert result.equals(TABLE)
    assert cached.collect().equals(TABLE)
    assert sum(row["n"] for row in grouped.to_dicts()) == sum(range(10_000))
    assert pa.Table.from_batches(bounded).equals(TABLE)


@pytest.mark.parametrize("read", ["whole", "bounded"])
def test_a_file_that_is_cut_while_it_is_read_is_named(tmp_path, read):
    path = str(tmp_path / "x.arrow")
    table = pa.table({"a": np.arange(1_000_000)})
    write(path, table, rows=100_000)
    if read == "whole":
        batches = read_units(path, {}, table.schema, 0, 0)
    else:
        batches = read_bounded(path, table.schema, 0, 0)
    first = next(iter(batches))
    os.truncate(path, 1_000_000)
    with pytest.raises(DataError, match=r"x\.arrow is not a whole Arrow IPC file: "):
        list(batches)
    assert first["a"][0].as_py() == 0


def test_dictionaries_are_read_in_pieces(tmp_path):
    path = str(tmp_path / "x.arrow")
    table = pa.table({"d": pa.array(["x", "y", None] * 50_000).dictionary_encode()})
    write(path, table)
    found = list(read_bounded(path, table.schema, 0, 0))
    assert len(found) > 1
    assert pa.Table.from_batches(found).equals(table)


def test_a_file_without_batches(tmp_path):
    path = str(tmp_path / "x.arrow")
    with pa.ipc.new_file(path, TABLE.schema):
        pass
    assert not is_compressed(path)
    assert list(read_units(path, {}, TABLE.schema, 0, 0)) == []


@pytest.mark.parametrize("batch_rows", [100_000, 8_000_000])
def test_bounded_reads_let_go_of_what_was_read(tmp_path, batch_rows):
    table = pa.table({"a": np.arange(8_000_000)})
    path = str(tmp_path / "x.arrow")
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    total, most, held = 0, 0, []
    for n, batch in enumerate(read_bounded(path, table.schema, 0, 0)):
        total += pc.sum(batch["a"]).as_py()
        if n % 8 == 0:  # looking takes 0.1 s in a process with thousands of mappings
            most = max(most, resident(path))
        held = [*held[-1:], batch]
    assert total == 8_000_000 * 7_999_999 // 2
    assert max(most, resident(path)) <= 20 << 20
    assert held[-1]["a"][-1].as_py() == 7_999_999  # its page comes back


def resident(path):
    """Bytes of a mapped file that are in this process's pages."""
    found, here = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            here = line.endswith(path)
        elif here and line.startswith("Rss:"):
            found += int(line.split()[1]) * 1024
    return found
