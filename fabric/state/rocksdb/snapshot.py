"""A RocksDB at one moment: hard links in a folder beside it.

One job: `RocksSnapshot`. Files of rows never change and are named by a digest of their bytes, so a
storage keeps one copy of each, however many snapshots and tasks have it; it is made once a file.
"""

from __future__ import annotations

import hashlib
import shutil
import weakref
from dataclasses import replace
from pathlib import Path

from fabric.errors import StorageError
from fabric.state.backend import SnapshotWriter
from fabric.state.header import FILE, Header
from fabric.state.rocksdb.reading import file_name

_DIGEST_CHARS = 32


class RocksSnapshot:
    """See `Snapshot`; `contents` are the digests of files that are known, for all snapshots."""

    def __init__(self, path: Path, header: Header, contents: dict[str, str]) -> None:
        self._path, self._header, self._contents = path, header, contents
        self._end = weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)

    def write(self, out: SnapshotWriter) -> None:
        """See `Snapshot.write`."""
        found: dict[str, str] = {}
        try:
            for path in sorted(self._path.iterdir()):
                if path.suffix == ".sst":
                    content = self._contents.get(path.name) or digest(path)
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
        self._contents.update(found)
        for name in self._contents.keys() - found.keys():
            self._contents.pop(name, None)

    def discard(self) -> None:
        """See `Snapshot.discard`."""
        self._end()


def digest(path: Path) -> str:
    """A name for the bytes of a file: half of its SHA-256, which processors have instructions for.

    BLAKE2b took a tenth of the processors while a checkpoint was under way.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:_DIGEST_CHARS]
