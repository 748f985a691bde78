"""The metadata store of an embedded coordinator: a dictionary.

One job: `MemoryStore`. Nothing survives the process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from fabric.coordinator.metadata.store import TABLES, Table, Write
from fabric.errors import StorageError


class MemoryStore:
    """See `MetadataStore`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[Table, dict[str, bytes]] = {table: {} for table in TABLES}
        self._epoch = 0
        self._closed = False

    def apply(self, writes: Sequence[Write]) -> None:
        """See `MetadataStore.apply`."""
        with self._lock:
            self._check_open()
            for write in writes:
                if write.value is None:
                    self._tables[write.table].pop(write.key, None)
                else:
                    self._tables[write.table][write.key] = write.value

    def scan(self, table: Table) -> Iterator[tuple[str, bytes]]:
        """See `MetadataStore.scan`."""
        with self._lock:
            self._check_open()
            records = sorted(self._tables[table].items())
        return iter(records)

    def next_epoch(self) -> int:
        """See `MetadataStore.next_epoch`."""
        with self._lock:
            self._check_open()
            self._epoch += 1
            return self._epoch

    def close(self) -> None:
        """See `MetadataStore.close`."""
        with self._lock:
            self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("the metadata store is closed")
