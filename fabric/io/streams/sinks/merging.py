"""Small files of a stream's sink, merged before anybody sees them.

One job: `merge_small`. What is to be merged is written down first, so that after a crash at any
step the same is done again: a merged file is seen only whole, and its parts are removed only then.
The caller holds the lock.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from fabric import failpoints
from fabric.io.sinks.encoders import open_encoder
from fabric.io.streams.sinks.folders import Folders, synced, write_whole

_BATCH_ROWS = 65_536
Groups = list[tuple[str, list[str]]]
"""The name of each merged file, and of its parts in order."""


def merge_small(folders: Folders, facts: dict[str, Any], now_s: float) -> None:
    """Finish what was begun; then, if it is time, merge all that waits.

    It is time when the oldest has waited for `compact_s`, or all together make a whole file.
    """
    plan = folders.root / "merge.json"
    if plan.exists():
        _carry_out(folders, json.loads(plan.read_text()), facts, plan)
    waiting = {path.name: path.stat() for path in folders.small.iterdir()}
    if not waiting:
        return
    oldest_s = min(found.st_mtime for found in waiting.values())
    total = sum(found.st_size for found in waiting.values())
    if now_s - oldest_s < facts["compact_s"] and total < max(1, facts["compact_bytes"]):
        return
    groups = _grouped({name: found.st_size for name, found in waiting.items()}, facts)
    write_whole(plan, json.dumps(groups))
    _carry_out(folders, groups, facts, plan)


def _grouped(sizes: dict[str, int], facts: dict[str, Any]) -> Groups:
    """Parts in the order of their names, up to `roll_bytes` a file."""
    limit = facts["roll_bytes"] or float("inf")
    groups: list[list[str]] = []
    room = 0.0
    for name in sorted(sizes):
        if not groups or sizes[name] > room:
            groups.append([])
            room = limit
        groups[-1].append(name)
        room -= sizes[name]
    return [(_name_of(group), group) for group in groups]


def _name_of(group: list[str]) -> str:
    if len(group) == 1:
        return group[0]
    stem, _, ending = group[0].rpartition(".")
    return f"{stem}.{len(group)}-merged.{ending}"


def _carry_out(folders: Folders, groups: Groups, facts: dict[str, Any], plan: Path) -> None:
    for name, parts in groups:
        paths = [folders.small / part for part in parts]
        seen = folders.target / name
        # A part that is gone was removed behind the merged file, which somebody may have taken.
        if not seen.exists() and all(path.exists() for path in paths):
            if len(paths) == 1:
                paths[0].rename(seen)
            else:
                aside = folders.root / "merged"
                _write(aside, paths, facts)
                synced(aside)
                aside.rename(seen)
            synced(folders.target)
        failpoints.reach("stream.merging")
        for path in paths:
            path.unlink(missing_ok=True)
    synced(folders.small)
    plan.unlink()


def _write(to: Path, parts: list[Path], facts: dict[str, Any]) -> None:
    if facts["format"] == "csv":
        _write_csv(to, parts, facts["options"])
        return
    first = _schema_of(parts[0], facts["format"])
    with pa.OSFile(str(to), "wb") as file:
        encoder = open_encoder(facts["format"], file, first, facts["options"])
        for part in parts:
            for batch in _batches(part, facts["format"]):
                encoder.write(batch)
        encoder.close()


def _write_csv(to: Path, parts: list[Path], options: dict[str, str]) -> None:
    """The header once, then the lines of all as they are."""
    has_header = options.get("header", "true") == "true"
    with to.open("wb") as out:
        for number, part in enumerate(parts):
            with part.open("rb") as file:
                if number and has_header:
                    file.seek(_after_header(part))
                while data := file.read(1 << 20):
                    out.write(data)


def _after_header(path: Path) -> int:
    """Where the rows begin: behind the first newline outside quotes."""
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


def _schema_of(path: Path, format: str) -> pa.Schema:
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
