"""Compaction: small files of a stream's sink, merged before anybody sees them.

One job: `merge_small`. What is to be merged is written down first, so that after a crash at any
step the same is done again: a merged file is seen only whole, and its parts are removed only then.
What is in a merged file is known for as long as somebody may want a part out of it again: `Merged`.
The caller holds the lock.

`join` makes files of one format one file, `without` makes that file less some of them. How much of
a joined file each part is counts in rows, of CSV and JSON in bytes (`ranges`): from that alone its
rows are found again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from fabric import failpoints
from fabric.io import places
from fabric.io.sinks.encoders import open_encoder
from fabric.io.sinks.stream_folders import Folders, names_below, synced, write_whole

MERGED_MAX = 1000
"""So many merged files can be told apart again, many times what is kept of checkpoints."""
Groups = list[tuple[str, list[str]]]
"""The name of each merged file, and of its parts in order."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The file `name` (with its folder) has these parts, in order, with so many rows (of texts:
    bytes) each."""

    name: str
    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @staticmethod
    def all(folders: Folders) -> list[Merged]:
        """Those that are known."""
        found = []
        for name in names_below(folders.merged):
            names, sizes = json.loads((folders.merged / name).read_text())
            found.append(Merged(name, tuple(names), tuple(sizes)))
        return found

    def note(self, folders: Folders) -> None:
        """Write that down, before anybody sees the file."""
        path = folders.merged / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps([self.names, self.sizes]))
        known = [folders.merged / name for name in names_below(folders.merged)]
        if len(known) > MERGED_MAX:
            min(known, key=lambda path: path.stat().st_mtime_ns).unlink()


def merge_small(folders: Folders, facts: dict[str, Any], now_s: float) -> None:
    """Finish what was begun; then, if it is time, merge all that waits.

    It is time when the oldest has waited for `compact_s`, or all together make a whole file.
    """
    finish_merge(folders, facts)
    waiting = {name: (folders.small / name).stat() for name in names_below(folders.small)}
    if not waiting:
        return
    oldest_s = min(found.st_mtime for found in waiting.values())
    total = sum(found.st_size for found in waiting.values())
    if now_s - oldest_s < facts["compact_s"] and total < max(1, facts["compact_bytes"]):
        return
    groups = _grouped({name: found.st_size for name, found in waiting.items()}, facts)
    write_whole(_plan(folders), json.dumps(groups))
    _carry_out(folders, groups, facts)


def finish_merge(folders: Folders, facts: dict[str, Any]) -> None:
    """Do what was begun and not finished."""
    if (plan := _plan(folders)).exists():
        _carry_out(folders, json.loads(plan.read_text()), facts)


def _plan(folders: Folders) -> Path:
    return folders.root / "merge.json"


def _grouped(sizes: dict[str, int], facts: dict[str, Any]) -> Groups:
    """Parts in the order of folders and names, up to `roll_bytes` a file, each of one folder."""
    limit = facts["roll_bytes"] or float("inf")
    groups: list[list[str]] = []
    room = 0.0
    for name, size in sizes.items():
        beside = bool(groups) and Path(groups[-1][0]).parent == Path(name).parent
        if not beside or size > room:
            groups.append([])
            room = limit
        groups[-1].append(name)
        room -= size
    return [(_name_of(group), group) for group in groups]


def _name_of(group: list[str]) -> str:
    if len(group) == 1:
        return group[0]
    stem, _, ending = group[0].rpartition(".")
    return f"{stem}.{len(group)}-merged.{ending}"


def _carry_out(folders: Folders, groups: Groups, facts: dict[str, Any]) -> None:
    for name, parts in groups:
        paths = [folders.small / part for part in parts]
        # A part that is gone was removed behind the merged file, which somebody may have taken.
        if not (folders.target / name).exists() and all(path.exists() for path in paths):
            places.check_unmoved((folders.target / name).parent)
            (folders.target / name).parent.mkdir(parents=True, exist_ok=True)
            _merge(folders, name, [(part, folders.small / part) for part in parts], facts)
            synced((folders.target / name).parent)
            synced(folders.target)
        failpoints.reach("stream.merging")
        for path in paths:
            path.unlink(missing_ok=True)
    synced(folders.small)
    _plan(folders).unlink()


def _merge(
    folders: Folders, name: str, parts: Sequence[tuple[str, Path]], facts: dict[str, Any]
) -> None:
    names, paths = zip(*parts, strict=True)
    if len(paths) == 1:
        paths[0].rename(folders.target / name)
        return
    aside = folders.root / "merged.new"
    sizes = join(aside, paths, facts["format"], facts["options"])
    synced(aside)
    Merged(name, names, tuple(sizes)).note(folders)
    aside.rename(folders.target / name)


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
