"""What old snapshots hold of the key groups of a task, whichever backend wrote them.

One job: `Sources`: which snapshots matter, whether their states go with those declared now, and
their entries one chunk after the other, converted. A backend that can take over a snapshot's files
as they are does that itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.rows import RowCodec
from fabric.errors import StorageError
from fabric.state.backend import Entries, SnapshotReader
from fabric.state.opened import (
    IndexedRows,
    Keys,
    OpenedSnapshot,
    Wanted,
    as_opened,
    group_of,
    mapped,
    opened,
)
from fabric.state.schema import FILE, Header, Stored, check_states, conversion, read_header
from fabric.state.spec import StateSpec

Old = tuple[SnapshotReader, Header]


class Sources:
    """The snapshots of a restore that hold some of what is wanted, checked against the specs."""

    def __init__(
        self,
        readers: Sequence[SnapshotReader],
        wanted: Wanted,
        specs: Sequence[StateSpec],
        dropped: Sequence[str],
    ) -> None:
        self._wanted = wanted
        self._specs = {spec.name: spec for spec in specs}
        headers = [header_of(reader) for reader in readers]
        for header in headers:
            check_states(header, specs, dropped)
        self.next_number = max((header.next_number for header in headers), default=0)
        self.old: list[Old] = [
            (reader, header)
            for reader, header in zip(readers, headers, strict=True)
            if isinstance(wanted, Keys) or overlap(header.key_groups, wanted)
        ]

    def entries(self, old: Old, scratch: Path | None) -> Iterator[tuple[str, Entries]]:
        """State names and entries of one snapshot, as they are stored now."""
        reader, header = old
        states = [state for state in header.states if state.name in self._specs]
        if header.backend == "memory":
            chunks = _from_files(reader, states, self._wanted)
        else:
            chunks = self._from_rocksdb(old, states, scratch)
        for name, found in chunks:
            spec = self._specs[name]
            keys, subs, values = self._ours(spec.key_codec(), found, header.key_groups)
            stored = header.stored(name)
            convert = conversion(stored, spec) if stored is not None else None
            yield name, (keys, subs, convert(values) if convert and len(values) else values)

    def _from_rocksdb(
        self, old: Old, states: Sequence[Stored], scratch: Path | None
    ) -> Iterator[tuple[str, Entries]]:
        from fabric.state.rocksdb.snapshot import entries_of

        reader, header = old
        if isinstance(reader, OpenedSnapshot):
            yield from entries_of(reader, header, states, self._wanted)
            return
        with tempfile.TemporaryDirectory(prefix="restore-", dir=scratch) as folder:
            snapshot = opened(reader, Path(folder))
            yield from entries_of(snapshot, header, states, self._wanted)

    def _ours(self, codec: RowCodec, entries: Entries, held: range) -> Entries:
        groups = self._wanted
        if isinstance(groups, Keys):
            return entries
        if held.start >= groups.start and held.stop <= groups.stop:
            return entries
        of_key = group_of(codec.hashes(entries[0])).astype(np.int64)
        mask = pa.array((of_key >= groups.start) & (of_key < groups.stop))
        keys, subs, values = (column.filter(mask) for column in entries)
        return keys, subs, values


def overlap(a: range, b: range) -> int:
    """How many groups two ranges share."""
    return max(0, min(a.stop, b.stop) - max(a.start, b.start))


def header_of(reader: SnapshotReader) -> Header:
    """What a snapshot says of itself."""
    if isinstance(reader, OpenedSnapshot):
        return reader.once("header", lambda: _read_header(reader))
    return _read_header(reader)


def _read_header(reader: SnapshotReader) -> Header:
    if FILE not in reader.names():
        held = ", ".join(reader.names()[:5]) or "nothing"
        raise StorageError(f"a snapshot without {FILE} is not a state of Fabric: it holds {held}")
    return read_header(bytes(reader.read(FILE)), "a snapshot")


def part_name(number: int, part: int) -> str:
    """The file of some entries of a state in memory."""
    return f"state.{number}-{part:06d}.arrow"


def _from_files(
    reader: SnapshotReader, states: Sequence[Stored], wanted: Wanted
) -> Iterator[tuple[str, Entries]]:
    names = reader.names()
    for state in states:
        for name in names:
            if not name.startswith(f"state.{state.number}-"):
                continue
            if isinstance(wanted, Keys):
                index = partial(_indexed, codec=RowCodec(state.keys, True))
                batches = as_opened(reader).of_file(name, index).of(wanted).to_batches()
            else:
                _, batches = _batches(reader.read(name), name)
            for batch in batches:
                yield state.name, (batch.column(0), batch.column(1), batch.column(2))


def _indexed(path: Path, codec: RowCodec) -> IndexedRows:
    schema, batches = _batches(mapped(path), path.name)
    return IndexedRows(schema, batches, lambda rows: group_of(codec.hashes(rows.column(0))))


def _batches(data: pa.Buffer, name: str) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    try:
        with pa.ipc.open_file(data) as file:
            return file.schema, [file.get_batch(i) for i in range(file.num_record_batches)]
    except (pa.ArrowException, OSError) as error:
        raise StorageError(f"{name} of a snapshot is damaged: {error}") from error
