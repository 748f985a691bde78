"""Memory-mapped IPC: views of the file where they can be, said so where they can't."""

import pyarrow as pa
import pytest

from fabric.io.files.ipc import is_mapped, read_units

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
