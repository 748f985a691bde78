"""The metadata store: small records by table and key.

One job: the protocol. `memory.py` and `rocksdb.py` implement it and share one test suite. What the
values hold is known to the core that writes them (`coordinator.core.records`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Table = Literal["jobs", "tasks", "agents", "datasets", "transactions"]
TABLES: tuple[Table, ...] = ("jobs", "tasks", "agents", "datasets", "transactions")


@dataclass(frozen=True, slots=True)
class Write:
    """Put `value` under `key`; None deletes."""

    table: Table
    key: str
    value: bytes | None


class MetadataStore(Protocol):
    """Records by (table, key). `apply` and `scan` may be called from any thread."""

    def apply(self, writes: Sequence[Write]) -> None:
        """Make all `writes` or none; they survive a crash of the process. Or `StorageError`."""

    def scan(self, table: Table) -> Iterator[tuple[str, bytes]]:
        """Every record of `table` as of now, in the order of keys."""

    def next_epoch(self) -> int:
        """A number higher than any this store gave before; durable when it returns."""

    def close(self) -> None:
        """Let the files go; a closed store refuses calls with `StorageError`."""
