"""All rows of one edge that a task reads, on its own agent.

One job: what lies in this agent's store and what was fetched from others, as one input of a
fragment: a list of batches when memory keeps them all anyway, else streams from wherever they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

import pyarrow as pa

from fabric._cython.shuffle.store.store import LocalRows

TAKE_MESSAGES = 4
"""From the disk a message has about 1 MiB."""


class Gathered:
    """Sealed rows, which may be read as often as wanted; close it when nobody does any more."""

    def __init__(self, parts: Sequence[LocalRows]) -> None:
        self._parts = [part for part in parts if part.n_rows]

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return sum(part.n_rows for part in self._parts)

    @property
    def n_bytes(self) -> int:
        """About how many decoded bytes they have."""
        return sum(part.n_bytes for part in self._parts)

    def parts(self) -> list[Callable[[], Iterator[pa.RecordBatch]]]:
        """Calls that read one producer's rows each; they hold none once this is closed.

        DataFusion lets go of what it was given when it is next called.
        """
        return [partial(self._read, at) for at in range(len(self._parts))]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return chain.from_iterable(read() for read in self.parts())

    def in_memory(self) -> list[pa.RecordBatch] | None:
        """All batches, which stay in memory until `close`; None when there is no room for that."""
        if not all(part.keep() for part in self._parts):
            for part in self._parts:
                part.let_go()
            return None
        return list(self)

    def close(self) -> None:
        """Let go of all rows."""
        for part in self._parts:
            part.let_go()
        self._parts.clear()

    def _read(self, at: int) -> Iterator[pa.RecordBatch]:
        stream = self._parts[at].batches()
        while batches := stream.take_batches(TAKE_MESSAGES):
            yield from batches
