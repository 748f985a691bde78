"""Files of one format as one file, and that file less some of them.

One job: `join`, `ranges`, `without`. How much of a joined file each part is counts in rows, of
CSV and JSON in bytes: from that alone its rows are found again.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from fabric.io.sinks.encoders import open_encoder

_BATCH_ROWS = 65_536
_READ_BYTES = 1 << 20
Ranges = list[tuple[int, int]]
Options = Mapping[str, Any]
_TEXT = ("csv", "json")


def join(to: Path, parts: Sequence[Path], format: str, options: Options) -> list[int]:
    """Write what is in `parts`, in order, to one file; returns how much of it each is."""
    if format in _TEXT:
        return _join_texts(to, parts, format, options)
    sizes = []
    with pa.OSFile(str(to), "wb") as file:
        encoder = open_encoder(format, file, stored_schema(parts[0], format), dict(options))
        for part in parts:
            sizes.append(0)
            for batch in _batches(part, format):
                encoder.write(batch)
                sizes[-1] += batch.num_rows
        encoder.close()
    return sizes


def size_of(path: Path, format: str, options: Options) -> int:
    """How much is in a file: rows, of texts bytes behind the header."""
    if format in _TEXT:
        return path.stat().st_size - _header_bytes(path, format, options)
    return sum(batch.num_rows for batch in _batches(path, format))


def without(to: Path, joined: Path, kept: Ranges, format: str, options: Options) -> None:
    """Write a joined file to another one, but only what is `kept` of it."""
    if format in _TEXT:
        header = _header_bytes(joined, format, options)
        spans = [(0, header), *((header + begin, header + end) for begin, end in kept)]
        with joined.open("rb") as source, to.open("wb") as out:
            for begin, end in spans:
                source.seek(begin)
                _copy(source, out, end - begin)
        return
    with pa.OSFile(str(to), "wb") as file:
        encoder = open_encoder(format, file, stored_schema(joined, format), dict(options))
        at = 0
        for batch in _batches(joined, format):
            for begin, end in kept:
                first, last = max(begin - at, 0), min(end - at, batch.num_rows)
                if first < last:
                    encoder.write(batch.slice(first, last - first))
            at += batch.num_rows
        encoder.close()


def ranges(sizes: Sequence[int], dropped: Collection[int]) -> Ranges:
    """Where the parts that stay lie.

    >>> ranges([3, 4, 5], {1})
    [(0, 3), (7, 12)]
    """
    found: Ranges = []
    at = 0
    for place, size in enumerate(sizes):
        if place not in dropped:
            found.append((at, at + size))
        at += size
    return found


def _join_texts(to: Path, parts: Sequence[Path], format: str, options: Options) -> list[int]:
    """The header once, then the lines of all as they are."""
    sizes = []
    with to.open("wb") as out:
        for number, part in enumerate(parts):
            header, size = _header_bytes(part, format, options), part.stat().st_size
            with part.open("rb") as file:
                file.seek(header if number else 0)
                _copy(file, out, size)
            sizes.append(size - header)
    return sizes


def _copy(source: BinaryIO, out: BinaryIO, n_bytes: int) -> None:
    while n_bytes > 0 and (data := source.read(min(n_bytes, _READ_BYTES))):
        out.write(data)
        n_bytes -= len(data)


def _header_bytes(path: Path, format: str, options: Options) -> int:
    """Where the rows of a CSV file begin: behind the first newline outside quotes."""
    if format == "json" or not options.get("header", True):
        return 0
    quoted, at = False, 0
    with path.open("rb") as file:
        while data := file.read(1 << 16):
            for byte in data:
                at += 1
                if byte == 0x22:
                    quoted = not quoted
                elif byte == 0x0A and not quoted:
                    return at
    return os.stat(path).st_size


def stored_schema(path: Path, format: str) -> pa.Schema:
    """The columns of a Parquet or IPC file."""
    import pyarrow.parquet as pq

    if format == "parquet":
        return pq.read_schema(path)
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).schema


def _batches(path: Path, format: str) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    if format == "parquet":
        with pq.ParquetFile(path, pre_buffer=False) as file:
            yield from file.iter_batches(_BATCH_ROWS, use_threads=False)
        return
    with pa.OSFile(str(path)) as source:
        reader = pa.ipc.open_file(source)
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)
