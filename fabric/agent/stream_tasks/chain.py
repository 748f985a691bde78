"""What a task of a stream calls its operators by, wherever they run.

One job: the protocol `StreamChain`: a `Chain` in this process, or one in a slot that does the
same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import pyarrow as pa

from fabric.checkpoint.manifest import FileRecord
from fabric.operators.contract import Batches, Snapshot


@runtime_checkable
class RemoteSnapshot(Protocol):
    """A snapshot that its process stores by itself."""

    def stored_files(self) -> tuple[FileRecord, ...]:
        """Wait until it is stored; raises why it can't be."""


class StreamChain(Protocol):
    """See `fabric.operators.chain.Chain`."""

    @property
    def watermarks(self) -> Mapping[str, int]:
        """By branch (``""``: there are none): what no row that still comes out is earlier than."""

    @property
    def done(self) -> bool:
        """Whether no input can change the output any more."""

    def silent_until(self) -> int:
        """Nothing comes out before an edge's watermark is this; `BEGINNING`: it may at any time."""

    def on_split(self, edge: int, split: str) -> None:
        """The batches of `edge` that follow are of this split."""

    def on_split_end(self, edge: int, split: str) -> Batches:
        """A split has no more rows."""

    def held_back(self) -> Mapping[int, frozenset[str]]:
        """Splits that are not to be read, by edge."""

    def slowest(self) -> dict[str, int]:
        """By node whose splits stay together: the watermark of the slowest."""

    def on_watermark_alignment(self, node: str, time_us: int) -> None:
        """The slowest split of `node` that other tasks read."""

    def on_batch(self, edge: int, batch: pa.RecordBatch) -> Batches:
        """Rows of `edge`; returns what comes out."""

    def on_watermark(self, edge: int, time_us: int) -> Batches:
        """No row of `edge` will be earlier."""

    def on_time(self, now_us: int) -> Batches:
        """It is `now_us`."""

    @property
    def has_more(self) -> bool:
        """Whether the last call completed more than it returned."""

    def more(self) -> Batches:
        """Some of what is still to come."""

    def on_end(self, edge: int) -> Batches:
        """`edge` has ended."""

    def take_side(self) -> dict[str, Batches]:
        """Rows for side outputs since the last call."""

    def on_barrier(self, checkpoint: int) -> Mapping[str, Snapshot | RemoteSnapshot]:
        """The state of every operator as of now."""

    def on_complete(self, checkpoint: int) -> None:
        """That checkpoint is complete."""

    def on_abort(self, checkpoint: int) -> None:
        """That checkpoint will not be."""

    def counts(self) -> dict[str, dict[str, int]]:
        """What the operators have counted, by node path."""
