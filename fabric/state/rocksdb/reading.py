"""A snapshot that RocksDB states made, read again.

One job: `place` (its files under their own names) and `entries_of` (what it holds). Files that
RocksDB never changes are linked; those that it appends to or replaces are copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fabric._cython.kernels.rows import RowCodec
from fabric.state.backend import Entries, SnapshotReader
from fabric.state.header import Header
from fabric.state.rocksdb.database import check_files, open_for_reading
from fabric.state.rocksdb.table import RocksTable

_FRONT = "state.db."
_AS_THEY_ARE = (".sst", ".log", ".json")


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
    """The database of a snapshot, in an empty folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in reader.names():
        if not name.startswith(_FRONT):
            continue
        to = folder / own_name(name)
        if name.endswith(".sst"):
            reader.fetch(name, to)
        else:
            to.write_bytes(reader.read(name))
    check_files(folder, header.contents)


def entries_of(
    reader: SnapshotReader, header: Header, folder: Path, groups: range
) -> Iterator[tuple[str, Entries]]:
    """State names and entries of these key groups; `folder` is empty, and may be removed then."""
    place(reader, header, folder)
    held = header.key_groups
    wanted = range(max(held.start, groups.start), min(held.stop, groups.stop))
    database = open_for_reading(folder)
    try:
        for state in header.states:
            codec = RowCodec(state.keys, True)
            table = RocksTable(database, folder, state.number, codec)
            for found in table.scan(wanted):
                yield state.name, found
    finally:
        database.close()
