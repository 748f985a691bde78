"""Memory-mapped IPC: views of the file where they can be, said so where they can't."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fabric.io.files.ipc import is_mapped, read_bounded, read_units

TABLE = pa.table({"a": range(10_000), "s": [str(i) for i in range(10_000)]})


@pytest.mark.parametrize(("compression", "mapped"), [(None, True), ("zstd", False), ("lz4", False)])
def test_only_plain_files_are_views(tmp_path, compression, mapped):
    path = str(tmp_path / "x.arrow")
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(path, TABLE.schema, options=options) as writer:
        writer.write_table(TABLE)
    assert is_mapped(path) is mapped
    before = pa.total_allocated_bytes()
    (batch,) = read_units(path, {}, TABLE.schema, 0, 0)
    assert (pa.total_allocated_bytes() - before < 1000) is mapped
    assert batch.equals(TABLE.to_batches()[0])


def test_a_file_without_batches(tmp_path):
    path = str(tmp_path / "x.arrow")
    with pa.ipc.new_file(path, TABLE.schema):
        pass
    assert is_mapped(path)
    assert list(read_units(path, {}, TABLE.schema, 0, 0)) == []


@pytest.mark.parametrize("batch_rows", [100_000, 8_000_000])
def test_bounded_reads_let_go_of_what_was_read(tmp_path, batch_rows):
    table = pa.table({"a": np.arange(8_000_000)})
    path = str(tmp_path / "x.arrow")
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    total, most, held = 0, 0, []
    for batch in read_bounded(path, table.schema, 0, 0):
        total += pc.sum(batch["a"]).as_py()
        most = max(most, resident(path))
        held = [*held[-1:], batch]
    assert total == 8_000_000 * 7_999_999 // 2
    assert most <= 20 << 20
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
