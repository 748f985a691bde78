"""The metadata store of an embedded coordinator: dictionaries.

One job: `MemoryStore`. Nothing survives the process; a test may open the same data twice.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fabric.coordinator.metadata.store import TABLES, Table, Write, fenced, last_of_each
from fabric.errors import FencedError, StorageError


@dataclass(slots=True)
class MemoryData:
    """What handles of one store share."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    tables: dict[Table, dict[str, bytes]] = field(
        default_factory=lambda: {table: {} for table in TABLES}
    )
    epoch: int = 0


class MemoryStore:
    """See `MetadataStore`."""

    def __init__(self, data: MemoryData | None = None) -> None:
        self._data = data or MemoryData()
        self._epoch = 0
        self._closed = False

    def apply(self, writes: Sequence[Write]) -> None:
        """See `MetadataStore.apply`."""
        changes = last_of_each(writes)
        with self._data.lock:
            self._check_open()
            if self._epoch != self._data.epoch:
                raise FencedError(fenced(self._epoch, self._data.epoch))
            for (table, key), value in changes.items():
                if value is None:
                    self._data.tables[table].pop(key, None)
                else:
                    self._data.tables[table][key] = value

    def scan(self, table: Table) -> Iterator[tuple[str, bytes]]:
        """See `MetadataStore.scan`."""
        with self._data.lock:
            self._check_open()
            return iter(sorted(self._data.tables[table].items()))

    def next_epoch(self) -> int:
        """See `MetadataStore.next_epoch`."""
        with self._data.lock:
            self._check_open()
            self._data.epoch += 1
            self._epoch = self._data.epoch
            return self._epoch

    def close(self) -> None:
        """See `MetadataStore.close`."""
        with self._data.lock:
            self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("the metadata store is closed")
