"""A RocksDB at one moment: hard links in a folder beside it.

One job: `RocksSnapshot`. Files of rows never change, and a number of RocksDB's is never given twice
while a database is open. So a file is known by that and who made it, for ever and everywhere, and a
storage keeps one copy of it, however many snapshots and tasks have it. (A digest of the bytes took
6 to 12 % of the processors while a checkpoint was under way.)
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fabric.errors import StorageError
from fabric.state.backend import SnapshotWriter
from fabric.state.header import FILE, Header
from fabric.state.rocksdb.reading import file_name


class RocksSnapshot:
    """See `Snapshot`; `contents` are the names of files that others made, `maker` of all others."""

    def __init__(self, path: Path, header: Header, contents: Mapping[str, str], maker: str) -> None:
        self._path, self._header, self._contents = path, header, contents
        self._maker = maker
        self._end = weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)

    def write(self, out: SnapshotWriter) -> None:
        """See `Snapshot.write`."""
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
            self.discard()

    def discard(self) -> None:
        """See `Snapshot.discard`."""
        self._end()


def content_of(name: str, contents: Mapping[str, str], maker: str) -> str:
    """What a file of rows is known by: what it came with, or who made it under which name.

    >>> content_of("000007.sst", {"000005.sst": "a-000005"}, "b")
    'b-000007'
    """
    return contents.get(name) or f"{maker}-{name.removesuffix('.sst')}"
