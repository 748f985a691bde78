"""A snapshot of states in RocksDB: hard links of its files, written, and read again.

One job: `RocksSnapshot`, a database at one moment, in a folder beside it, and the way back: `place`
(its files under their own names) and `entries_of` (what it holds). Files of rows never change, and
a number of RocksDB's is never given twice while a database is open. So a file is known by that and
who made it, for ever and everywhere, and a storage keeps one copy of it, however many snapshots and
tasks have it. (A digest of the bytes took 6 to 12 % of the processors while a checkpoint was under
way.) Files that RocksDB appends to or replaces are copied.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fabric._cython.kernels.rows import RowCodec
from fabric.errors import StorageError
from fabric.state.backend import Entries, SnapshotReader, SnapshotWriter
from fabric.state.base import fit
from fabric.state.opened import Keys, OpenedSnapshot, Wanted
from fabric.state.rocksdb.database import check_files, open_for_reading
from fabric.state.rocksdb.table import RocksTable
from fabric.state.schema import FILE, Header, Stored
from fabric.state.spec import LINKED

_FRONT = "state.db."
_AS_THEY_ARE = (".sst", ".log", ".json")


class RocksSnapshot:
    """See `Snapshot`; `contents` are the names of files that others made, `maker` of all others."""

    def __init__(self, path: Path, header: Header, contents: Mapping[str, str], maker: str) -> None:
        self._path, self._header, self._contents = path, header, contents
        self._maker = maker
        self._end = weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)

    def write(self, out: SnapshotWriter) -> None:
        """See `Snapshot.write`; RocksDB knows no count of its rows but by reading all of them."""
        found: dict[str, str] = {}
        try:
            for path in sorted(self._path.iterdir()):
                if path.suffix == ".sst":
                    content = content_of(path.name, self._contents, self._maker)
                    found[path.name] = content
                    out.link(file_name(path.name), path, content)
                else:
                    out.put(file_name(path.name), path.read_bytes())
            out.put(FILE, replace(self._header, contents=found).to_json())
        except StorageError:
            raise
        except OSError as error:
            why = error.strerror or error
            raise StorageError(f"a snapshot of state can't be written: {why}") from error
        finally:
            self._end()


def content_of(name: str, contents: Mapping[str, str], maker: str) -> str:
    """What a file of rows is known by: what it came with, or who made it under which name.

    >>> content_of("000007.sst", {"000005.sst": "a-000005"}, "b")
    'b-000007'
    """
    return contents.get(name) or f"{maker}-{name.removesuffix('.sst')}"


def file_name(own: str) -> str:
    """The name in a snapshot of one of RocksDB's files.

    >>> file_name("MANIFEST-000005"), own_name("state.db.manifest-000005")
    ('state.db.manifest-000005', 'MANIFEST-000005')
    """
    return _FRONT + own.lower()


def own_name(name: str) -> str:
    """The way back."""
    own = name.removeprefix(_FRONT)
    return own if own.endswith(_AS_THEY_ARE) else own.upper()


def place(reader: SnapshotReader, header: Header, folder: Path) -> None:
    """The database of a snapshot, in an empty folder; nobody has it open."""
    placed(reader, header, folder).close()


def placed(reader: SnapshotReader, header: Header, folder: Path) -> Any:
    """The same, opened for reading."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in reader.names():
        if not name.startswith(_FRONT):
            continue
        to = folder / own_name(name)
        if name.endswith(".sst"):
            reader.fetch(name, to)
        else:
            to.write_bytes(reader.read(name))
    database = open_for_reading(folder)
    try:
        check_files(database, folder, header.contents)
    except BaseException:
        database.close()
        raise
    return database


class _Database:
    """That of a snapshot, as long as anybody reads it."""

    def __init__(self, snapshot: OpenedSnapshot, header: Header) -> None:
        self.folder = snapshot.folder("db")
        self.database = placed(snapshot, header, self.folder)
        weakref.finalize(self, self.database.close)


def entries_of(
    snapshot: OpenedSnapshot, header: Header, states: Sequence[Stored], wanted: Wanted
) -> Iterator[tuple[str, Entries]]:
    """Names of `states` and their entries that are wanted; others are not read."""
    held = header.key_groups
    opened = snapshot.once("database", lambda: _Database(snapshot, header))
    for state in states:
        codec = RowCodec(state.keys, True)
        table = RocksTable(opened.database, opened.folder, state.number, codec)
        if isinstance(wanted, Keys):
            columns = zip(wanted.columns.columns, state.keys, strict=True)
            keys = codec.encode([fit(column, field.type) for column, field in columns])
            yield state.name, table.entries(keys, linked=state.kind in LINKED)
            continue
        ours = range(max(held.start, wanted.start), min(held.stop, wanted.stop))
        for found in table.scan(ours):
            yield state.name, found
