"""Snapshots as Arrow IPC files, from which a task takes the key groups that it owns.

    rows.arrow    columns ... | __key_group uint16     one file a table
    facts.json    {"watermark": ...}                   numbers of the whole task

One job: which key groups a task owns, so that state moves in ranges when the number of tasks
changes; writing such files in any thread, and reading those of several old tasks. An operator hands
over immutable data, or a function that makes the table of it. `Joint` is a snapshot of several
parts, of which `parts_of` reads one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric._cython.kernels.hash import hash_columns
from fabric.errors import DataError
from fabric.state.backend import Snapshot, SnapshotReader, SnapshotWriter

N_KEY_GROUPS = 1 << 15
HASH_SHIFT = 49
"""A key's group is the upper 15 bits of its hash."""


def key_groups(task: int, n_tasks: int) -> range:
    """The groups whose rows go to partition `task` of `n_tasks`.

    >>> key_groups(0, 3), key_groups(1, 3)
    (range(0, 10923), range(10923, 21846))
    """
    return range(_first(task, n_tasks), _first(task + 1, n_tasks))


def hashes_of(groups: range) -> tuple[int, int]:
    """The hashes of keys in these groups: from the first on, up to the second.

    >>> hashes_of(range(0, 1 << 15)) == (0, 1 << 64), hashes_of(range(1, 2)) == (1 << 49, 1 << 50)
    (True, True)
    """
    return groups.start << HASH_SHIFT, groups.stop << HASH_SHIFT


def _first(task: int, n_tasks: int) -> int:
    return -(-task * N_KEY_GROUPS // n_tasks)


KEY_GROUP = "__key_group"
_FACTS = "facts.json"

Rows: TypeAlias = pa.RecordBatch | pa.Table


@dataclass(frozen=True, slots=True)
class Packed:
    """A snapshot of tables, made when they are written, and of facts."""

    tables: Mapping[str, Callable[[], Rows]]
    facts: Mapping[str, int] = field(default_factory=dict)

    def write(self, out: SnapshotWriter) -> None:
        """A file a table that has rows, and one of the facts."""
        for name, make in self.tables.items():
            if (rows := make()).num_rows:
                out.put(f"{name}.arrow", to_ipc(rows))
        out.put(_FACTS, json.dumps(dict(self.facts), sort_keys=True).encode())


@dataclass(frozen=True, slots=True)
class Joint:
    """Parts by name, of ``[a-z0-9]``; each one's files are under its name, those of "" as such."""

    parts: Mapping[str, Snapshot]

    def write(self, out: SnapshotWriter) -> None:
        """One part after the other."""
        for name, part in self.parts.items():
            part.write(_Writer(out, f"{name}.") if name else out)


def parts_of(snapshots: Sequence[SnapshotReader], name: str) -> list[SnapshotReader]:
    """That part of each snapshot; a part that was not there has no files."""
    return [_Reader(snapshot, f"{name}.") for snapshot in snapshots]


def to_ipc(rows: Rows) -> pa.Buffer:
    """The rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue()


def with_key_groups(rows: Rows, keys: Sequence[str]) -> Rows:
    """The rows and, last, the key group of each."""
    hashes = hash_columns([rows.column(name) for name in keys])
    groups = (hashes >> np.uint64(HASH_SHIFT)).astype(np.uint16)
    return rows.append_column(KEY_GROUP, pa.array(groups))


def unpacked(
    snapshots: Sequence[SnapshotReader], name: str, schema: pa.Schema, key_groups: range
) -> list[pa.RecordBatch]:
    """The rows of table `name` whose key groups are ours, without that column, by old task.

    Raises
    ------
    DataError
        If a snapshot holds columns of another schema.
    """
    found = []
    for snapshot in snapshots:
        if f"{name}.arrow" not in snapshot.names():
            continue
        table = pa.ipc.open_stream(snapshot.read(f"{name}.arrow")).read_all()
        *columns, groups = table.schema
        if pa.schema(columns).equals(schema) and groups.name == KEY_GROUP:
            found += _ours(table, key_groups).drop_columns([KEY_GROUP]).to_batches()
        else:
            raise DataError(
                f"the snapshot of {name} has the columns {_text(columns)}, and this plan needs "
                f"{_text(schema)}; start the job anew, or restore it with the plan it had"
            )
    return [batch for batch in found if batch.num_rows]


def greatest(snapshots: Sequence[SnapshotReader], fact: str, default: int) -> int:
    """The greatest value that an old task had of a fact; `default` when there is no old task."""
    facts = [json.loads(bytes(snapshot.read(_FACTS))) for snapshot in snapshots]
    return max((int(each[fact]) for each in facts if fact in each), default=default)


def _ours(table: pa.Table, key_groups: range) -> pa.Table:
    groups = table.column(KEY_GROUP)
    least, most = pc.min_max(groups).as_py().values()
    if least is None or (least in key_groups and most in key_groups):
        return table
    first = pc.greater_equal(groups, pa.scalar(key_groups.start, pa.uint16()))
    last = pc.less(groups.cast(pa.int32()), pa.scalar(key_groups.stop, pa.int32()))
    return table.filter(pc.and_(first, last))


def _text(schema: Sequence[pa.Field] | pa.Schema) -> str:
    return ", ".join(f"{each.name}: {each.type}" for each in schema)


@dataclass(frozen=True, slots=True)
class _Writer:
    out: SnapshotWriter
    prefix: str

    def put(self, name: str, data: bytes | pa.Buffer) -> None:
        self.out.put(self.prefix + name, data)

    def link(self, name: str, path: Path, content: str) -> None:
        self.out.link(self.prefix + name, path, content)


@dataclass(frozen=True, slots=True)
class _Reader:
    snapshot: SnapshotReader
    prefix: str

    def names(self) -> list[str]:
        prefix = self.prefix
        names = self.snapshot.names()
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def read(self, name: str) -> pa.Buffer:
        return self.snapshot.read(self.prefix + name)

    def fetch(self, name: str, to: Path) -> None:
        self.snapshot.fetch(self.prefix + name, to)
