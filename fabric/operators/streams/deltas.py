"""Checkpoints of the groups in memory: each adds only what changed since the one before.

    checkpoint 1   groups-a                                  all groups
    checkpoint 2   groups-a  groups-b                        those that changed
    checkpoint 3   groups-a  groups-b  groups-c  groups-d    c: the keys of groups that are gone
    …
    checkpoint n   groups-z                                  all groups again

One job: `Deltas`. A checkpoint lists its files, the oldest first; the newest file with a group's
key says what the group is. Files lie in the operator's folder until no checkpoint will need them,
so each is stored once. When they have twice as many rows as there are groups, the next checkpoint
is whole. Small state always is: one small file costs less than many.
"""

from __future__ import annotations

import json
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.group_table import GroupTable
from fabric.errors import StorageError
from fabric.operators.snapshots import Facts, Joint, Packed, Rows, parts_of, unpacked
from fabric.operators.streams.columns import Ints, only
from fabric.operators.streams.group_values import Numbers
from fabric.state.backend import Snapshot, SnapshotReader, SnapshotWriter
from fabric.state.opened import Wanted

FEW_BYTES = 1 << 20
"""Groups that take less memory are written whole."""
MOST_ROWS = 2
"""So many times as many rows as there are groups may lie in files."""
MOST_FILES = 64
"""So many checkpoints go on from a whole one at most: each file costs one that is restored."""
_PART, _FILES = "hot", "files.json"

Make = Callable[[], Rows]
"""Makes the rows of a file, in any thread."""


@dataclass(slots=True)
class Hot:
    """The groups in memory, for `Deltas.snapshot`, which asks for all of them or for some."""

    ids: Ints
    n_rows: int
    """Rows of all groups."""
    nbytes: int
    """Memory in use."""
    rows: Callable[[Ints], pa.RecordBatch]
    """The rows of some groups."""
    whole: Callable[[], Make]
    """All rows, with their key groups; made later, of the groups as they are now."""


class Deltas:
    """Snapshots of groups whose rows have columns `schema`, of which `keys` name the group.

    `with_key_groups` appends to rows the key group of each. Without a `folder` each snapshot is
    whole.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        keys: Sequence[str],
        with_key_groups: Callable[[Rows], Rows],
        folder: Path | None = None,
    ) -> None:
        self._name, self._schema, self._with_key_groups = name, schema, with_key_groups
        self._keys = pa.schema([schema.field(key) for key in keys])
        self._folder = None if folder is None else folder / _PART
        self._maker, self._n_made = uuid.uuid4().hex[:12], 0
        self._files: tuple[_File, ...] = ()
        self._n_stored = self._n_gone = 0
        """Rows and keys in the files; keys in `_gone`."""
        self._changed = Numbers(np.bool_, False)
        self._gone: list[pa.RecordBatch] = []

    # ---- what happens to groups

    def changed(self, ids: Ints) -> None:
        """These groups are new, or not what they were."""
        if self._files:
            self._changed.put(ids, True)

    def gone(self, ids: Ints, keys: Callable[[Ints], pa.RecordBatch]) -> None:
        """These groups go; `keys` gives the columns that name them."""
        if not self._files:
            return
        self._n_gone += len(ids)
        if self._n_gone >= self._n_stored:
            self.anew()  # as when a window ends that all of them are
        else:
            self._gone.append(pa.RecordBatch.from_arrays(keys(ids).columns, schema=self._keys))

    def anew(self) -> None:
        """Groups have other numbers now, or many are gone: the next snapshot is whole."""
        self._files, self._gone = (), []
        self._n_stored = self._n_gone = 0

    def close(self) -> None:
        """Remove the files, but for those that snapshots still have."""
        self.anew()
        if self._folder is not None:
            with suppress(OSError):
                self._folder.rmdir()

    # ---- snapshots

    def snapshot(self, groups: Hot, facts: Facts) -> Snapshot:
        """The groups as they are, and facts of the whole task."""
        changed = groups.ids
        if self._files:
            self._changed.reach(changed)
            changed = changed[self._changed.values[changed]]
            n_rows = self._n_stored + self._n_gone + len(changed)
            if len(self._files) >= MOST_FILES or n_rows > MOST_ROWS * len(groups.ids):
                self.anew()
        if not self._files:
            if self._folder is None or groups.nbytes < FEW_BYTES or not len(groups.ids):
                return Packed({self._name: groups.whole()}, facts, groups.n_rows)
            self._add(len(groups.ids), groups.whole())
        else:
            if self._n_gone:  # before the rows, for a group may have come again
                keys = pa.Table.from_batches(self._gone)
                self._add(self._n_gone, lambda: self._with_key_groups(keys), gone=True)
                self._gone, self._n_gone = [], 0
            if len(changed):
                rows = groups.rows(changed)
                self._add(len(changed), lambda: self._with_key_groups(rows))
        self._changed.values[:] = False
        return Joint({"": Packed({}, facts, 0), _PART: self._chain(groups.n_rows)})

    def _chain(self, n_rows: int) -> _Chain:
        return _Chain(self._name, self._files, n_rows)

    def _add(self, n_rows: int, make: Make, *, gone: bool = False) -> None:
        assert self._folder is not None
        with suppress(OSError):  # who writes the file says so
            self._folder.mkdir(parents=True, exist_ok=True)
        self._n_made += 1
        content = f"{self._maker}-{self._n_made}"
        self._files = (*self._files, _File(content, self._folder / content, gone, make))
        self._n_stored += n_rows

    def restored(
        self, snapshots: Sequence[SnapshotReader], wanted: Wanted
    ) -> Iterator[pa.RecordBatch]:
        """The rows of all groups that are wanted; those of one group are side by side.

        Raises
        ------
        DataError
            If a snapshot has rows of other columns.
        """
        yield from unpacked(snapshots, self._name, self._schema, wanted)
        for part in parts_of(snapshots, _PART):
            if _FILES in part.names():
                yield from self._newest(part, wanted)

    def _newest(self, part: SnapshotReader, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """Of each group the rows that were written last."""
        known = GroupTable(self._keys)
        files = json.loads(bytes(part.read(_FILES)))
        for number, (content, gone) in enumerate(reversed(files)):
            name = _file_name(self._name, content)
            found = unpacked([part], name, self._keys if gone else self._schema, wanted)
            keys = [only(rows, self._keys.names) for rows in found]
            if not gone:
                for rows, named in zip(found, keys, strict=True):
                    yield rows if number == 0 else rows.filter(pa.array(known.find(named) < 0))
            for named in keys if number + 1 < len(files) else ():
                known.upsert(named)


@dataclass(eq=False)
class _File:
    """Rows of a snapshot: made and written when the first one that has them is."""

    content: str
    path: Path
    gone: bool
    """Whether it has keys of groups that are no more."""
    make: Make | None
    lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        weakref.finalize(self, self.path.unlink, missing_ok=True)

    def store(self, out: SnapshotWriter, name: str) -> None:
        with self.lock:
            if self.make is not None:
                self._write(self.make())
                self.make = None
        out.link(f"{_file_name(name, self.content)}.arrow", self.path, self.content)

    def _write(self, rows: Rows) -> None:
        try:
            with (
                open(self.path, "wb") as file,
                pa.ipc.new_stream(file, rows.schema) as writer,
            ):
                writer.write(rows)
        except OSError as error:
            self.path.unlink(missing_ok=True)
            why = error.strerror or str(error)
            raise StorageError(f"{self.path} can't be written: {why}") from error


@dataclass(frozen=True, slots=True)
class _Chain:
    name: str
    files: tuple[_File, ...]
    n_rows: int
    """Of the groups that there are; the files have more."""

    def write(self, out: SnapshotWriter) -> int:
        for each in self.files:
            each.store(out, self.name)
        out.put(_FILES, json.dumps([[each.content, each.gone] for each in self.files]).encode())
        return self.n_rows


def _file_name(name: str, content: str) -> str:
    return f"{name}-{content}"
