"""States in memory: a table of the `value_store` kernel each.

One job: `MemoryBackend`. A snapshot freezes the tables in microseconds; what is written to storage
comes from the frozen ones, in Arrow IPC files of bounded size. Nothing outlives `close`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from fabric._cython.kernels.value_store import FrozenStore, ValueStore
from fabric.state.backend import Entries, SnapshotReader, SnapshotWriter
from fabric.state.opened import Wanted
from fabric.state.restore import Sources, part_name
from fabric.state.schema import FILE, Header
from fabric.state.spec import StateSpec

PART_BYTES = 16 << 20
"""About as many bytes of entries as are in one file, and in memory twice, at once."""
_SWEPT_SHARDS = 512  # of 4096: a round of sweeping takes 8 calls
_N_GROUPS = 1 << 15
_SCHEMA = pa.schema(
    {"key": pa.large_binary(), "sub": pa.large_binary(), "value": pa.large_binary()}
)


class MemoryTable(ValueStore):
    """One state; the kernel, and scanning."""

    def scan(self, groups: range) -> Iterator[Entries]:
        """See `Table.scan`."""
        return _parts(self.freeze(), groups)

    def sweep(self, before_us: int) -> int:
        """See `Table.sweep`."""
        return self.sweep_shards(before_us, _SWEPT_SHARDS)[0]


class MemoryBackend:
    """See `Backend`."""

    next_number = 0

    def __init__(self, specs: Sequence[StateSpec], dropped: Sequence[str] = ()) -> None:
        self._specs, self._dropped = tuple(specs), tuple(dropped)
        self._tables = {spec.name: MemoryTable(spec.key_codec(), spec.linked) for spec in specs}

    def table(self, name: str) -> MemoryTable:
        """See `Backend.table`."""
        return self._tables[name]

    def snapshot(self, header: Header) -> MemorySnapshot:
        """See `Backend.snapshot`."""
        return MemorySnapshot(
            header, {state.number: self._tables[state.name].freeze() for state in header.states}
        )

    def restore(self, readers: Sequence[SnapshotReader], wanted: Wanted) -> None:
        """See `Backend.restore`; keys are taken out of snapshots that are opened."""
        sources = Sources(readers, wanted, self._specs, self._dropped)
        self.next_number = sources.next_number
        linked = {spec.name: spec.linked for spec in self._specs}
        for old in sources.old:
            for name, (keys, subs, values) in sources.entries(old, None):
                self._tables[name].put_many(keys, values, subs if linked[name] else None)

    @property
    def nbytes(self) -> int:
        """See `Backend.nbytes`."""
        return sum(table.nbytes for table in self._tables.values())

    def close(self) -> None:
        """See `Backend.close`; a snapshot that is still being written keeps what it needs."""
        self._tables = {}


class MemorySnapshot:
    """Frozen tables, by the number of their state."""

    def __init__(self, header: Header, tables: Mapping[int, FrozenStore]) -> None:
        self._header, self._tables = header, dict(tables)

    def write(self, out: SnapshotWriter) -> int:
        """See `Snapshot.write`; a list's element and a map's entry is a row."""
        n_rows = 0
        try:
            for number, table in self._tables.items():
                for part, entries in enumerate(_parts(table, range(_N_GROUPS))):
                    out.put(part_name(number, part), _file(entries))
                    n_rows += len(entries[0])
            out.put(FILE, self._header.to_json())
        finally:
            self._tables = {}
        return n_rows


def _parts(frozen: FrozenStore, groups: range) -> Iterator[Entries]:
    cursor = 0
    while cursor >= 0:
        cursor, keys, subs, values = frozen.read(cursor, groups.start, groups.stop, PART_BYTES)
        if len(keys):
            yield keys, subs, values


def _file(entries: Entries) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _SCHEMA) as file:
        file.write_batch(pa.RecordBatch.from_arrays(list(entries), schema=_SCHEMA))
    return sink.getvalue()
