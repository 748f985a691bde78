"""The metadata store: small records by table and key.

`MetadataStore` is the protocol; `memory.py`, `rocksdb.py` and `postgres` implement it and share one
test suite. What the values hold is known to the core that writes them (`core/jobs/records.py`).
`write_down` is how the coordinator writes: past the failpoints at which tests kill it.

Writes are fenced: a store handle writes under the epoch that it began, and once anybody has begun
a higher one on the same data, every write of the older handle fails with `FencedError`. Writes
put whole records, so that one whose answer was lost may be made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from fabric import failpoints
from fabric.errors import StorageError

Table = Literal[
    "jobs", "plans", "tasks", "attempts", "agents", "datasets", "transactions", "events",
    "checkpoints",
]  # fmt: skip
TABLES: tuple[Table, ...] = get_args(Table)
_BEFORE = {"datasets": "coordinator.committing"}
_AFTER = {
    "datasets": "coordinator.committed",
    "jobs": "coordinator.job-persisted",
    "tasks": "coordinator.tasks-persisted",
}


@dataclass(frozen=True, slots=True)
class Write:
    """Put `value` under `key`; None deletes."""

    table: Table
    key: str
    value: bytes | None


class MetadataStore(Protocol):
    """Records by (table, key). `apply` and `scan` may be called from any thread.

    Keys are texts without NUL, in the order of their code points.
    """

    def apply(self, writes: Sequence[Write]) -> None:
        """Make all `writes` or none, the last one of each key; on the disk when it returns.

        Raises
        ------
        FencedError
            A higher epoch has begun; nothing was written.
        StorageAwayError
            The store does not answer; the writes may have been made or not. Apply the same ones
            again, before any later ones, until they are.
        StorageError
            The store refuses for good: a full or broken disk, closed, a key that it can't hold.
        """

    def scan(self, table: Table) -> Iterator[tuple[str, bytes]]:
        """Records of `table` as of now, in the order of keys."""

    def next_epoch(self) -> int:
        """Begin an epoch higher than any before, and write under it; durable when it returns."""

    def close(self) -> None:
        """Let the files go; a closed store refuses calls with `StorageError`."""


def last_of_each(writes: Iterable[Write]) -> dict[tuple[Table, str], bytes | None]:
    """The value that is under each key in the end; `StorageError` for one that no store can hold.

    >>> last_of_each([Write("jobs", "a", b"1"), Write("jobs", "a", None)])
    {('jobs', 'a'): None}
    """
    found: dict[tuple[Table, str], bytes | None] = {}
    for write in writes:
        if "\0" in write.key or not _is_unicode(write.key):
            raise StorageError(f"{write.key!r} can't be a key of {write.table}: not plain text")
        found[write.table, write.key] = write.value
    return found


def fenced(mine: int, current: int) -> str:
    """What a `FencedError` says."""
    return (
        f"this coordinator's epoch {mine} is over: another one leads with epoch {current}"
        if mine
        else f"this coordinator has not begun an epoch; the newest is {current}"
    )


def write_down(store: MetadataStore, writes: Sequence[Write]) -> None:
    """All of `writes` or, with a `StorageError`, none."""
    tables = sorted({write.table for write in writes if write.value is not None})
    _pass_by(_BEFORE, tables)
    store.apply(writes)
    _pass_by(_AFTER, tables)


def _pass_by(points: Mapping[str, str], tables: Sequence[str]) -> None:
    for table in tables:
        if table in points:
            failpoints.reach(points[table])


def _is_unicode(text: str) -> bool:
    """Whether it has no halves of surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
