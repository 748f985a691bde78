"""Arrow IPC files, memory-mapped: batches of an uncompressed file are views of the page cache.

One job: read IPC files. A unit is a record batch. A file must not be shortened in place while a job
reads it: the system kills a process that touches a mapped page which is gone (replacing a file by
renaming another over it is safe). What is inside is checked before any kernel walks it, because one
damaged string offset would kill the process too; that costs nothing for numbers, 0.25 s a GB else.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from mmap import MADV_DONTNEED

import pyarrow as pa

from fabric.io.faults import reading
from fabric.io.files.units import Given, Unit

OPTIONS: dict[str, type] = {}
"""Reader options: none."""
_PIECE_ROWS, _HELD_BYTES = 65_536, 16 << 20


def check(options: Given) -> None:
    """Nothing to refuse."""


def file_schema(path: str, options: Given) -> pa.Schema:
    """Columns and types from the footer."""
    with reading(path, "Arrow IPC"), pa.memory_map(path) as file:
        return pa.ipc.open_file(file).schema


def units(path: str, options: Given) -> list[Unit]:
    """Record batches with their rows; only heads are touched when not compressed."""
    with reading(path, "Arrow IPC"), pa.memory_map(path) as file:
        reader = pa.ipc.open_file(file)
        n_batches = reader.num_record_batches
        rows = [reader.get_batch(i).num_rows for i in range(n_batches)]
        row_bytes = file.size() / max(1, sum(rows))
    return [Unit(n_rows, int(n_rows * row_bytes)) for n_rows in rows]


def is_mapped(path: str) -> bool:
    """Whether batches are views of the mapping (not compressed), so that all fit in memory."""
    with reading(path, "Arrow IPC"), pa.memory_map(path) as file:
        reader = pa.ipc.open_file(file)
        if not reader.num_record_batches:
            return True
        batch, start = reader.get_batch(0), _base(file)
        end = start + file.size()
        buffers = [
            b for column in batch.columns for b in column.buffers() if b is not None and b.size
        ]
        return all(start <= buffer.address < end for buffer in buffers)


def _base(file: pa.MemoryMappedFile) -> int:
    file.seek(0)
    return int(file.read_buffer(1).address)


def read_units(
    path: str, options: Given, schema: pa.Schema, begin: int, end: int
) -> Iterator[pa.RecordBatch]:
    """Record batches `begin` to `end` (0:0 means all) with the columns of `schema`."""
    with reading(path, "Arrow IPC"), pa.memory_map(path) as file:
        for batch in _chosen(file, schema, begin, end):
            _check_inside(batch)
            yield batch


def read_bounded(path: str, schema: pa.Schema, begin: int, end: int) -> Iterator[pa.RecordBatch]:
    """What `read_units` gives, in pieces; the process lets go of pages that were read.

    They stay in the page cache: what a batch that is still held needs comes back by itself.
    """
    with reading(path, "Arrow IPC"), pa.memory_map(path) as file:
        mapped, seen = (_base(file), file.size()), 0
        for batch in _chosen(file, schema, begin, end):
            for start in range(0, batch.num_rows, _PIECE_ROWS):
                piece = batch.slice(start, _PIECE_ROWS)
                _check_inside(piece)
                yield piece
                seen += piece.nbytes
                if seen >= _HELD_BYTES:
                    _let_go(*mapped)
                    seen = 0


def _chosen(
    file: pa.MemoryMappedFile, schema: pa.Schema, begin: int, end: int
) -> Iterator[pa.RecordBatch]:
    reader = pa.ipc.open_file(file)
    indices = [reader.schema.get_field_index(name) for name in schema.names]
    for index in range(begin, end or reader.num_record_batches):
        batch = reader.get_batch(index)
        yield pa.RecordBatch.from_arrays([batch.column(i) for i in indices], schema=schema)


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
