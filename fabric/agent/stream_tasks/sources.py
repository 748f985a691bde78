"""The sources that a task of a stream reads itself.

One job: poll the readers of a task in turn, without waiting in one for what another one has.
`BatchSize`, pure, says how many rows a task takes at a time, from a source or another task: as many
as it is through with in `TARGET_S`, so that barriers and other orders, which are heard between two
batches, don't wait for long, whatever a row costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from fabric._cython.shuffle.ring.ring import RoundCosts
from fabric.io.readers.protocol import (
    END,
    IDLE,
    BadRecord,
    Ended,
    Polled,
    Unreadable,
)
from fabric.io.readers.reader import StreamReader
from fabric.plan.stream import UNREADABLE
from fabric.telemetry.logs import logger

_log = logger("fabric.agent")

BUSY_GATHER_S = 1e-3
"""Rows that would lie in a ring, a walk each, come together for so long at least."""
SHOWN_CHARS = 200
"""Of a position in a message."""
ROWS_MAX = 1 << 16
"""It lies in the cache."""
ROWS_MIN = 256
TARGET_S = 0.1


@dataclass(frozen=True, slots=True)
class Read:
    """Rows of one split of a scan, or (`ended`) that there are none left of it."""

    edge: int
    path: str
    rows: Polled | Ended


class Sources:
    """The readers of one task, by the chain's edge and the path of their scan.

    Rows may be kept for `gather_s`, to be handed out together, at most `rows_max` of them. With
    `drained` all have ended where they are.
    """

    def __init__(
        self,
        readers: Mapping[int, tuple[str, StreamReader]],
        gather_s: float = 0.0,
        *,
        drained: bool = False,
        rows_max: int = ROWS_MAX,
    ) -> None:
        self._readers, self._gather_s = dict(readers), gather_s
        self._open = list(self._readers)
        self._n_unreadable: dict[str, int] = {}
        self._size = BatchSize(most=rows_max)
        self._drained = drained

    @property
    def open(self) -> bool:
        """Whether rows may still come."""
        return bool(self._open)

    def poll(self, wait_s: float, busy: bool = False) -> Iterator[Read | int]:
        """What each open reader has, in turn; a number: that edge has ended.

        Waits at most `wait_s`, and only where nothing came. `busy`: those who get the rows have
        others to work on, where these would only wait.
        """
        if self._drained:
            while self._open:
                yield self._open.pop()
            return
        gather_s = max(self._gather_s, BUSY_GATHER_S) if busy else self._gather_s
        nothing = True
        for edge in list(self._open) if len(self._open) > 1 else ():
            path, reader = self._readers[edge]
            answer = reader.poll(self._size.rows, 0.0, gather_s)
            if answer is END:
                self._open.remove(edge)
                yield edge
            elif isinstance(answer, Polled | Ended):
                yield Read(edge, path, answer)
            nothing = nothing and answer is IDLE
        if nothing and self._open:
            edge = self._open.pop(0)
            self._open.append(edge)  # the next one waits the next time
            path, reader = self._readers[edge]
            answer = reader.poll(self._size.rows, wait_s / len(self._open), gather_s)
            if answer is END:
                self._open.remove(edge)
                yield edge
            elif isinstance(answer, Polled | Ended):
                yield Read(edge, path, answer)

    def drain(self) -> None:
        """Read no more: as if each source had come to its end where it is now."""
        self._drained = True

    def took(self, read: Read | int, seconds: float) -> None:
        """How long the task was busy with what `poll` gave it."""
        if isinstance(read, Read) and isinstance(read.rows, Polled):
            self._size.took(read.rows.batch.num_rows, seconds)

    def take_unreadable(self) -> list[pa.RecordBatch]:
        """What readers have left out since the last call, counted."""
        found = []
        for path, reader in self._readers.values():
            if some := reader.take_unreadable():
                self._n_unreadable[path] = self._n_unreadable.get(path, 0) + len(some)
                found.append(_as_rows(some))
        return found

    def counts(self) -> dict[str, dict[str, int]]:
        """What was left out, and what readers know of their splits, by the path of the scan."""
        known = {path: reader.counts() for path, reader in self._readers.values()}
        for path, n in self._n_unreadable.items():
            known[path][UNREADABLE] = n
        return {path: counts for path, counts in known.items() if counts}

    def whereabouts(self, edge: int, rows: Polled) -> str:
        """Where rows that were just read came from, in words."""
        _, reader = self._readers[edge]
        behind = reader.positions()[rows.split].decode(errors="replace")
        shown = behind if len(behind) <= SHOWN_CHARS else f"{behind[:SHOWN_CHARS]}…"
        return (
            f"this happened with {rows.batch.num_rows} rows of split {rows.split!r}, read before "
            f"position {shown}"
        )

    def pause(self, splits: Mapping[int, frozenset[str]]) -> None:
        """Read nothing of these, by the chain's edge, until the next call."""
        for edge, (_, reader) in self._readers.items():
            reader.pause(splits.get(edge, frozenset()))

    def on_barrier(self, checkpoint: int) -> dict[str, dict[str, bytes]]:
        """Where to go on, by split, by the path of the scan."""
        return {path: reader.on_barrier(checkpoint) for path, reader in self._readers.values()}

    def on_complete(self, checkpoint: int) -> None:
        """What was read before that checkpoint's barrier will not be asked for again."""
        for _, reader in self._readers.values():
            reader.on_complete(checkpoint)

    def interrupt(self) -> None:
        """From any thread: wake a poll that waits."""
        for _, reader in self._readers.values():
            reader.interrupt()

    def close(self) -> None:
        """Let go of everything."""
        for _, reader in self._readers.values():
            reader.close()


def _as_rows(found: Sequence[Unreadable | BadRecord]) -> pa.RecordBatch:
    first = found[0]
    _log.warning("skipped unreadable records", where=first.where, offset=first.offset,
                 why=first.error, n=len(found))  # fmt: skip
    return pa.RecordBatch.from_pylist([asdict(one) for one in found], first.schema)


class BatchSize:
    """Follows what batches take: at once when it is too long, by doubling when it is short.

    Where a batch costs about the same whatever it holds, as a call of a remote service does, fewer
    rows only mean more batches. So they get fewer only where that saves time, as in rings (`Pace`).

    >>> size = BatchSize()
    >>> size.took(65_536, 0.8)
    >>> size.rows
    8192
    >>> size.took(8_192, 0.01)
    >>> size.rows
    16384
    >>> size = BatchSize()
    >>> for _ in range(8):  # it is not the rows that take so long
    ...     size.took(size.rows, 0.5)
    >>> size.rows
    65536
    """

    def __init__(self, rows: int | None = None, most: int = ROWS_MAX) -> None:
        self.rows = most if rows is None else min(rows, most)
        self._most = most
        self._costs = RoundCosts()

    def took(self, n_rows: int, seconds: float) -> None:
        """A batch of so many rows was worked on, waits for room included, for so long."""
        if n_rows <= 0:
            return  # windows that fire tell nothing of what rows take
        self._costs.add(n_rows, seconds)
        fits = n_rows * TARGET_S / seconds if seconds > 0 else self._most
        if fits < self.rows and seconds <= TARGET_S:
            return  # few rows tell little of what many take
        found = int(min(max(fits, ROWS_MIN), 2 * self.rows, self._most))
        if found < self.rows or found == ROWS_MIN:
            found = min(self._costs.next(found, self.rows), self._most)
        self.rows = found
