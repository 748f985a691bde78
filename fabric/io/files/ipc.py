"""Arrow IPC files: each batch is read into memory of its own.

One job: read IPC files. A unit is a record batch. Batches are no views of a mapping: who rewrites
a file in place would change rows that were handed out, and who cuts it would have the system kill
this process. Only heads are looked at in a mapping, and what is read with little memory, a piece
at a time: a batch may be larger than that. What is inside is checked before any kernel walks it,
because one damaged string offset would kill the process; that costs nothing for numbers, 0.25 s a
GB else. An object of a bucket is one unit: how many rows its batches have takes a request for each.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from mmap import MADV_DONTNEED

import pyarrow as pa

from fabric.io import local_files
from fabric.io.files import Given, Unit, store_of
from fabric.io.local_files import reading
from fabric.object_urls import is_object_url

OPTIONS: dict[str, type] = {}
"""Reader options: none."""
_PIECE_ROWS, _HELD_BYTES = 65_536, 16 << 20
_AHEAD_BYTES = 1 << 20
"""Of an object: buffers of narrow columns come together."""


def check(options: Given) -> None:
    """Nothing to refuse."""


def file_schema(path: str, options: Given) -> pa.Schema:
    """Columns and types from the footer."""
    with reading(path, "Arrow IPC"), _looked_into(path, options) as file:
        return pa.ipc.open_file(file).schema


def _looked_into(path: str, options: Given) -> pa.NativeFile:
    if is_object_url(path):
        return local_files.opened(path, _AHEAD_BYTES, store_of(options))
    return local_files.mapped(path)


def units(path: str, options: Given) -> list[Unit]:
    """Record batches with their rows; only heads are touched when not compressed."""
    if is_object_url(path):
        with reading(path, "Arrow IPC"):
            return [Unit(0, local_files.n_bytes(path, store_of(options)))]
    with reading(path, "Arrow IPC"), local_files.mapped(path) as file:
        reader = pa.ipc.open_file(file)
        n_batches = reader.num_record_batches
        rows = [reader.get_batch(i).num_rows for i in range(n_batches)]
        row_bytes = file.size() / max(1, sum(rows))
    return [Unit(n_rows, int(n_rows * row_bytes)) for n_rows in rows]


def is_compressed(path: str) -> bool:
    """Whether batches are larger in memory than in the file."""
    with reading(path, "Arrow IPC"), local_files.mapped(path) as file:
        reader = pa.ipc.open_file(file)
        if not reader.num_record_batches:
            return False
        batch, start = reader.get_batch(0), _base(file)
        end = start + file.size()
        buffers = [
            b for column in batch.columns for b in column.buffers() if b is not None and b.size
        ]
        return not all(start <= buffer.address < end for buffer in buffers)


def _base(file: pa.MemoryMappedFile) -> int:
    file.seek(0)
    return int(file.read_buffer(1).address)


def read_units(
    path: str, options: Given, schema: pa.Schema, begin: int, end: int
) -> Iterator[pa.RecordBatch]:
    """Record batches `begin` to `end` (0:0 means all) with the columns of `schema`."""
    store = store_of(options)
    with reading(path, "Arrow IPC"), local_files.opened(path, _AHEAD_BYTES, store) as file:
        for batch in _chosen(file, schema, begin, end):
            _check_inside(batch)
            yield batch


def read_bounded(path: str, schema: pa.Schema, begin: int, end: int) -> Iterator[pa.RecordBatch]:
    """What `read_units` gives, in pieces; never more than that of a batch is in memory."""
    with reading(path, "Arrow IPC"), local_files.mapped(path) as file:
        mapped, seen = (_base(file), file.size()), 0
        for batch in _chosen(file, schema, begin, end):
            for start in range(0, batch.num_rows, _PIECE_ROWS):
                if os.stat(path).st_size < file.size():
                    raise OSError("it was cut while it was read")
                piece = batch.slice(start, _PIECE_ROWS)
                _check_inside(piece)
                yield _copied(piece)
                seen += piece.nbytes
                if seen >= _HELD_BYTES:
                    _let_go(*mapped)
                    seen = 0


def _chosen(
    file: pa.NativeFile, schema: pa.Schema, begin: int, end: int
) -> Iterator[pa.RecordBatch]:
    names = pa.ipc.open_file(file).schema.names
    places = [names.index(name) for name in schema.names]  # of others not a byte is read
    if isinstance(file, pa.MemoryMappedFile):  # with fields named it would all be read ahead
        places = []
    options = pa.ipc.IpcReadOptions(included_fields=places, use_threads=False)
    reader = pa.ipc.open_file(file, options=options)
    for index in range(begin, end or reader.num_record_batches):
        batch = reader.get_batch(index)
        columns = [batch.column(name) for name in schema.names]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    file = pa.BufferOutputStream()
    with pa.ipc.new_stream(file, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(file.getvalue()).read_next_batch()


def _let_go(address: int, n_bytes: int) -> None:
    """Unmap the pages of a mapping until they are touched again."""
    libc = ctypes.CDLL(None, use_errno=True)
    if n_bytes and libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(n_bytes), MADV_DONTNEED):
        raise OSError(ctypes.get_errno(), "a mapped file could not be let go of")


def _check_inside(batch: pa.RecordBatch) -> None:
    """Raise where a kernel would leave the buffers; plain values can't make it do that."""
    batch.validate()
    for column in batch.columns:
        if not pa.types.is_primitive(column.type):
            column.validate(full=True)
