"""All states of a task in one RocksDB.

One job: `RocksBackend`, its folder, and restoring. The folder holds ``db`` and, while one is
written, ``snapshot-N``. Each attempt of a task has a new folder. A folder that a crash left is
ahead of the last checkpoint, so it is refused like a folder that holds anything else, and nothing
in it is touched.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from rocksdict import Checkpoint

from fabric._cython.kernels.rows import RowCodec
from fabric.errors import StorageError
from fabric.state.backend import SnapshotReader
from fabric.state.restore import Old, Sources, overlap
from fabric.state.rocksdb.database import failed, open_database
from fabric.state.rocksdb.snapshot import RocksSnapshot, place
from fabric.state.rocksdb.table import RocksTable
from fabric.state.schema import Header, conversion
from fabric.state.spec import StateSpec

_ALL_GROUPS = range(1 << 15)
_SIZES = ("rocksdb.total-sst-files-size", "rocksdb.cur-size-all-mem-tables")


class RocksBackend:
    """See `Backend`; `folder` is made when it is missing."""

    def __init__(
        self, folder: Path, specs: Sequence[StateSpec], dropped: Sequence[str] = ()
    ) -> None:
        self._folder, self._own = folder, folder / "db"
        self._specs, self._dropped = tuple(specs), tuple(dropped)
        self._numbers = {spec.name: number for number, spec in enumerate(specs)}
        self._contents: dict[str, str] = {}
        """What files are known by that came from elsewhere."""
        self._maker = uuid4().hex
        self._n_snapshots = 0
        self.next_number = 0
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            held = sorted(path.name for path in folder.iterdir())
        except OSError as error:
            raise failed(folder, error) from error
        _check_new(folder, held)
        self._database: Any = open_database(self._own, create=True)

    def table(self, name: str) -> RocksTable:
        """See `Backend.table`."""
        spec = next(spec for spec in self._specs if spec.name == name)
        return RocksTable(self._database, self._own, self._numbers[name], spec.key_codec())

    def snapshot(self, header: Header) -> RocksSnapshot:
        """See `Backend.snapshot`: what is in memory is written, and all files are linked."""
        self._n_snapshots += 1
        path = self._folder / f"snapshot-{self._n_snapshots}"
        try:
            self._database.flush()  # without the GIL; making the checkpoint keeps it
            Checkpoint(self._database).create_checkpoint(str(path))
        except Exception as error:  # rocksdict raises bare Exception
            shutil.rmtree(path, ignore_errors=True)
            raise failed(self._folder, error) from error
        return RocksSnapshot(path, self._numbered(header), self._contents, self._maker)

    def restore(self, readers: Sequence[SnapshotReader], key_groups: range) -> None:
        """See `Backend.restore`: the snapshot with the most of them is taken over as it is."""
        sources = Sources(readers, key_groups, self._specs, self._dropped)
        self.next_number = sources.next_number
        ours = [old for old in sources.old if old[1].backend == "rocksdb"]
        base = max(ours, key=lambda old: overlap(old[1].key_groups, key_groups), default=None)
        if base is not None:
            self._begin_with(base, key_groups)
        tables = {spec.name: (self.table(spec.name), spec.linked) for spec in self._specs}
        for old in sources.old:
            if old is base:
                continue
            for name, (keys, subs, values) in sources.entries(old, self._folder):
                table, linked = tables[name]
                table.put_many(keys, values, subs if linked else None)

    def _begin_with(self, base: Old, key_groups: range) -> None:
        reader, header = base
        database, self._database = self._database, None
        database.close()
        try:
            shutil.rmtree(self._own)
            place(reader, header, self._own)
        except OSError as error:
            raise failed(self._folder, error) from error
        self._database = open_database(self._own, create=False)
        self._contents = dict(header.contents)
        self._take_over(header, key_groups)

    def _take_over(self, header: Header, key_groups: range) -> None:
        """Number the states as they are in the database, and bring them to what is declared."""
        numbers = {state.name: state.number for state in header.states}
        free = max(numbers.values(), default=-1) + 1
        new = [spec.name for spec in self._specs if spec.name not in numbers]
        self._numbers = numbers | {name: free + i for i, name in enumerate(new)}
        specs = {spec.name: spec for spec in self._specs}
        held = header.key_groups
        for state in header.states:
            spec = specs.get(state.name)
            if spec is None:
                codec = RowCodec(state.keys, True)
                RocksTable(self._database, self._own, state.number, codec).drop_groups(_ALL_GROUPS)
                continue
            table = self.table(state.name)
            table.drop_groups(range(held.start, min(held.stop, key_groups.start)))
            table.drop_groups(range(max(held.start, key_groups.stop), held.stop))
            if (convert := conversion(state, spec)) is not None:
                for keys, subs, values in table.scan(key_groups):
                    table.put_many(keys, convert(values), subs if spec.linked else None)

    @property
    def nbytes(self) -> int:
        """See `Backend.nbytes`."""
        return sum(self._database.property_int_value(name) or 0 for name in _SIZES)

    def close(self) -> None:
        """See `Backend.close`."""
        database, self._database = self._database, None
        if database is None:  # a restore has failed
            return
        try:
            database.close()
        except Exception as error:  # rocksdict raises bare Exception
            raise failed(self._folder, error) from error

    def _numbered(self, header: Header) -> Header:
        states = tuple(replace(state, number=self._numbers[state.name]) for state in header.states)
        return replace(header, states=states)


def _check_new(folder: Path, held: Sequence[str]) -> None:
    """Refuse a folder that holds anything."""
    if "db" in held:
        raise StorageError(
            f"{folder} has the state of another attempt of this task, which may be ahead of the "
            "last checkpoint: restore that into a new folder; nothing was changed"
        )
    if held:
        raise StorageError(
            f"{folder} is not empty, it holds {', '.join(held[:5])}: use a new folder; nothing was "
            "changed"
        )
