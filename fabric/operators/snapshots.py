"""Snapshots as Arrow IPC files, from which a task takes the key groups that it owns.

    rows.arrow    columns ... | __key_group uint16     one file a table
    facts.json    {"watermark": ...}                   numbers of the whole task, or by key group

One job: which key groups a task owns, so that state moves in ranges when the number of tasks
changes; writing such files in any thread, and reading those of several old tasks. An operator hands
over immutable data, or a function that makes the table of it. `Joint` is a snapshot of several
parts, of which `parts_of` reads one. `GroupTimes`: how far each key group had come in time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fabric._cython.kernels.hash import hash_columns
from fabric.errors import DataError
from fabric.state.backend import Snapshot, SnapshotReader, SnapshotWriter, total
from fabric.state.opened import (
    HASH_SHIFT,
    IndexedRows,
    Keys,
    OpenedSnapshot,
    Wanted,
    as_opened,
    group_of,
    mapped,
)

N_KEY_GROUPS = 1 << 15


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
Fact: TypeAlias = int | list[list[int]]
"""A number; or one by key group, see `GroupTimes.fact`."""
Facts: TypeAlias = Mapping[str, Fact]


@dataclass(frozen=True, slots=True)
class Packed:
    """A snapshot of tables, made when they are written, and of facts."""

    tables: Mapping[str, Callable[[], Rows]]
    facts: Facts
    n_rows: int
    """Rows of state by key."""

    def write(self, out: SnapshotWriter) -> int:
        """A file a table that has rows, and one of the facts."""
        for name, make in self.tables.items():
            if (rows := make()).num_rows:
                out.put(f"{name}.arrow", to_ipc(rows))
        out.put(_FACTS, json.dumps(dict(self.facts), sort_keys=True).encode())
        return self.n_rows


@dataclass(frozen=True, slots=True)
class Joint:
    """Parts by name, of ``[a-z0-9]``; each one's files are under its name, those of "" as such."""

    parts: Mapping[str, Snapshot]

    def write(self, out: SnapshotWriter) -> int | None:
        """One part after the other."""
        return total(
            part.write(_Writer(out, f"{name}.") if name else out)
            for name, part in self.parts.items()
        )


def parts_of(snapshots: Sequence[SnapshotReader], name: str) -> list[SnapshotReader]:
    """That part of each snapshot; a part that was not there has no files."""
    return [
        snapshot.part(name)
        if isinstance(snapshot, OpenedSnapshot)
        else _Reader(snapshot, f"{name}.")
        for snapshot in snapshots
    ]


def to_ipc(rows: Rows) -> pa.Buffer:
    """The rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue()


def with_key_groups(rows: Rows, keys: Sequence[str]) -> Rows:
    """The rows and, last, the key group of each."""
    hashes = hash_columns([rows.column(name) for name in keys])
    return rows.append_column(KEY_GROUP, pa.array(group_of(hashes)))


def unpacked(
    snapshots: Sequence[SnapshotReader], name: str, schema: pa.Schema, wanted: Wanted
) -> list[pa.RecordBatch]:
    """The rows of table `name` whose key groups are wanted, without that column, by old task.

    Raises
    ------
    DataError
        If a snapshot holds columns of another schema.
    """
    found = []
    for snapshot in snapshots:
        if f"{name}.arrow" not in snapshot.names():
            continue
        if isinstance(wanted, Keys):
            table = as_opened(snapshot).of_file(f"{name}.arrow", _indexed).of(wanted)
        else:
            table = pa.ipc.open_stream(snapshot.read(f"{name}.arrow")).read_all()
        *columns, groups = table.schema
        if pa.schema(columns).equals(schema) and groups.name == KEY_GROUP:
            ours = table if isinstance(wanted, Keys) else _ours(table, wanted)
            found += ours.drop_columns([KEY_GROUP]).to_batches()
        else:
            raise DataError(
                f"the snapshot of {name} has the columns {_text(columns)}, and this plan needs "
                f"{_text(schema)}; start the job anew, or restore it with the plan it had"
            )
    return [batch for batch in found if batch.num_rows]


def greatest(snapshots: Sequence[SnapshotReader], fact: str, default: int) -> int:
    """The greatest value that an old task had of a fact; `default` when there is no old task."""
    found = (_facts(snapshot) for snapshot in snapshots)
    return max((int(each[fact]) for each in found if fact in each), default=default)


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """How far in time each key group has come: all equally far, or each as far as its old task.

    In an unaligned checkpoint tasks have not come equally far. A task that takes over key groups
    of several old ones goes on from the least of their times, so that no row in flight is late.
    Key groups that were ahead keep their own time, so that nothing is put out twice.

    >>> times = GroupTimes(3, ((10, 3), (20, 7)))
    >>> times.of(lambda: np.array([9, 10, 19], np.uint64) << np.uint64(HASH_SHIFT)).tolist()
    [3, 7, 7]
    >>> times.raised(5).fact(), times.raised(8)
    ([[10, 5], [20, 7]], GroupTimes(least=8, by_group=()))
    """

    least: int
    by_group: tuple[tuple[int, int], ...] = ()
    """Pairs of a stop and a time, rising: key groups up to that stop have that time. Empty: all
    have the least."""

    @classmethod
    def restored(
        cls, snapshots: Sequence[SnapshotReader], fact: str, key_groups: range, default: int
    ) -> GroupTimes:
        """The times that old tasks stored for our key groups; `default` where there is none."""
        found: list[tuple[int, int]] = []
        for snapshot in sorted(snapshots, key=lambda each: each.key_groups.start):
            said, begin = _facts(snapshot).get(fact, default), snapshot.key_groups.start
            for stop, time_us in (
                [[snapshot.key_groups.stop, said]] if isinstance(said, int) else said
            ):
                if max(begin, key_groups.start) < min(stop, key_groups.stop):
                    found.append((min(stop, key_groups.stop), time_us))
                begin = stop
        if not found:
            return cls(default)
        least = min(time_us for _, time_us in found)
        return cls(least, () if all(time_us == least for _, time_us in found) else tuple(found))

    @property
    def most(self) -> int:
        """The time of the key groups that are furthest ahead."""
        return max((time_us for _, time_us in self.by_group), default=self.least)

    def raised(self, time_us: int) -> GroupTimes:
        """The same, with no time below `time_us`."""
        if time_us >= self.most:
            return GroupTimes(time_us)
        by_group = tuple((stop, max(each, time_us)) for stop, each in self.by_group)
        return GroupTimes(max(self.least, time_us), by_group)

    def of(self, hashes: Callable[[], NDArray[np.uint64]]) -> NDArray[np.int64] | np.int64:
        """The time of each row's key group, found by the hash of its keys; one value if equal."""
        if not self.by_group:
            return np.int64(self.least)
        stops, times = np.array(self.by_group, np.int64).T
        places = np.searchsorted(stops, group_of(hashes()), "right")
        found: NDArray[np.int64] = times[np.minimum(places, len(times) - 1)]
        return found

    def fact(self) -> Fact:
        """For `Packed`."""
        return [list(each) for each in self.by_group] or self.least


def _facts(snapshot: SnapshotReader) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bytes(snapshot.read(_FACTS)))
    return found


def _indexed(path: Path) -> IndexedRows:
    with pa.ipc.open_stream(mapped(path)) as file:
        return IndexedRows(file.schema, list(file), lambda rows: rows.columns[-1].to_numpy())


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

    @property
    def key_groups(self) -> range:
        return self.snapshot.key_groups

    def names(self) -> list[str]:
        prefix = self.prefix
        names = self.snapshot.names()
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def read(self, name: str) -> pa.Buffer:
        return self.snapshot.read(self.prefix + name)

    def fetch(self, name: str, to: Path, *, fixed: bool = False) -> None:
        self.snapshot.fetch(self.prefix + name, to, fixed=fixed)
