"""What old snapshots hold of the key groups of a task, whichever backend wrote them.

One job: `Sources`: which snapshots matter, whether their states go with those declared now, and
their entries one chunk after the other, converted. A backend that can take over a snapshot's files
as they are does that itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.rows import RowCodec
from fabric.errors import StorageError
from fabric.state.backend import Entries, SnapshotReader
from fabric.state.schema import FILE, Header, check_states, conversion, read_header
from fabric.state.spec import StateSpec

Old = tuple[SnapshotReader, Header]
GROUP_SHIFT = np.uint64(49)


class Sources:
    """The snapshots of a restore that hold some of these key groups, checked against the specs."""

    def __init__(
        self,
        readers: Sequence[SnapshotReader],
        key_groups: range,
        specs: Sequence[StateSpec],
        dropped: Sequence[str],
    ) -> None:
        self.key_groups = key_groups
        self._specs = {spec.name: spec for spec in specs}
        headers = [read_header(_header_of(reader), "a snapshot") for reader in readers]
        for header in headers:
            check_states(header, specs, dropped)
        self.next_number = max((header.next_number for header in headers), default=0)
        self.old: list[Old] = [
            (reader, header)
            for reader, header in zip(readers, headers, strict=True)
            if overlap(header.key_groups, key_groups)
        ]

    def entries(self, old: Old, scratch: Path | None) -> Iterator[tuple[str, Entries]]:
        """State names and entries of one snapshot, as they are stored now."""
        reader, header = old
        chunks = (
            _from_files(reader, header)
            if header.backend == "memory"
            else self._folder(old, scratch)
        )
        for name, found in chunks:
            if (spec := self._specs.get(name)) is None:
                continue  # it is among the dropped ones
            keys, subs, values = self._ours(spec.key_codec(), found, header.key_groups)
            stored = header.stored(name)
            convert = conversion(stored, spec) if stored is not None else None
            yield name, (keys, subs, convert(values) if convert and len(values) else values)

    def _folder(self, old: Old, scratch: Path | None) -> Iterator[tuple[str, Entries]]:
        from fabric.state.rocksdb.snapshot import entries_of

        with tempfile.TemporaryDirectory(prefix="restore-", dir=scratch) as folder:
            yield from entries_of(*old, Path(folder), self.key_groups)

    def _ours(self, codec: RowCodec, entries: Entries, held: range) -> Entries:
        groups = self.key_groups
        if held.start >= groups.start and held.stop <= groups.stop:
            return entries
        of_key = (codec.hashes(entries[0]) >> GROUP_SHIFT).astype(np.int64)
        mask = pa.array((of_key >= groups.start) & (of_key < groups.stop))
        keys, subs, values = (column.filter(mask) for column in entries)
        return keys, subs, values


def overlap(a: range, b: range) -> int:
    """How many groups two ranges share."""
    return max(0, min(a.stop, b.stop) - max(a.start, b.start))


def _header_of(reader: SnapshotReader) -> bytes:
    if FILE not in reader.names():
        held = ", ".join(reader.names()[:5]) or "nothing"
        raise StorageError(f"a snapshot without {FILE} is not a state of Fabric: it holds {held}")
    return bytes(reader.read(FILE))


def part_name(number: int, part: int) -> str:
    """The file of some entries of a state in memory."""
    return f"state.{number}-{part:06d}.arrow"


def _from_files(reader: SnapshotReader, header: Header) -> Iterator[tuple[str, Entries]]:
    names = reader.names()
    for state in header.states:
        for name in names:
            if not name.startswith(f"state.{state.number}-"):
                continue
            try:
                with pa.ipc.open_file(reader.read(name)) as file:
                    batches = [file.get_batch(i) for i in range(file.num_record_batches)]
            except (pa.ArrowException, OSError) as error:
                raise StorageError(f"{name} of a snapshot is damaged: {error}") from error
            for batch in batches:
                yield state.name, (batch.column(0), batch.column(1), batch.column(2))
