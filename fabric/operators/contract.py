"""What every incremental operator does, and when it is called.

One job: the `Operator` base class. One thread owns an operator, so operators hold no locks. The
calls, in order:

    open -> [restore] -> { on_batch | on_watermark | on_timers | on_barrier ... } -> on_end -> close
    on_barrier(7) ... on_complete(7) or on_abort(7), each later and in any number

Defaults are those of an operator without state that passes time through; a subclass says what
differs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

Batches = list[pa.RecordBatch]
TimeDomain = Literal["event", "processing"]
Put = Callable[[bytes], None]
"""Stores one snapshot's bytes."""


@dataclass(frozen=True, slots=True)
class Context:
    """Where an operator runs: its node path and which of how many tasks it is."""

    node: str = ""
    task: int = 0
    n_tasks: int = 1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of one task at a barrier; `write` may run beside the operator."""

    state: bytes = b""

    def write(self, put: Put) -> None:
        """Hand the bytes to storage; nothing when there is no state."""
        if self.state:
            put(self.state)


class Operator(ABC):
    """Turns batches into batches, one input batch at a time."""

    def open(self, context: Context) -> None:  # noqa: B027 - an operator need not care
        """Before the first call."""

    @abstractmethod
    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """Take rows of `input` (0 is the first); returns what comes out, in order."""

    def on_watermark(self, time_us: int) -> Batches:
        """No earlier event time will come; returns what that completes."""
        return []

    def on_timers(
        self, keys: pa.RecordBatch, times_us: Sequence[int], domain: TimeDomain
    ) -> Batches:
        """Timers that were set are due; returns what they put out."""
        return []

    def on_barrier(self, checkpoint: int) -> Snapshot:
        """The state as of now, quickly; rows that come later are not in it."""
        return Snapshot()

    def on_complete(self, checkpoint: int) -> None:  # noqa: B027
        """Checkpoint `checkpoint` is complete everywhere."""

    def on_abort(self, checkpoint: int) -> None:  # noqa: B027
        """Checkpoint `checkpoint` will not be completed."""

    def on_end(self, input: int) -> Batches:
        """`input` has ended; returns what that completes."""
        return []

    def restore(self, states: Sequence[bytes], key_groups: range) -> None:  # noqa: B027
        """Continue from snapshots: several of them when the number of tasks has changed."""

    def close(self) -> None:  # noqa: B027
        """After the last call, also after an error."""

    @property
    def done(self) -> bool:
        """Whether no input can change the output any more."""
        return False
