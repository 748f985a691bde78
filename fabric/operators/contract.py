"""What every incremental operator does, and when it is called.

One job: the `Operator` base class. One thread owns an operator, so operators hold no locks. The
calls, in order:

    open -> [restore] -> { on_batch | on_watermark | on_time | on_barrier ... } -> on_end -> close
    on_watermark ... more, while has_more, before the next barrier
    on_batch ... more, while is_full, before the next rows; a barrier may come between
    on_barrier(7) ... on_complete(7) or on_abort(7), each later and in any number

Defaults are those of an operator without state that passes time through; a subclass says what
differs. Timers are an operator's own state: they lie in its snapshot, and fire in `on_watermark`
and `on_time`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from fabric.config import StateBackend
from fabric.event_time import BEGINNING
from fabric.state.backend import Snapshot, SnapshotReader, SnapshotWriter
from fabric.state.opened import Wanted

Batches = list[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Context:
    """Where an operator runs: its node path, which of how many tasks it is, and its own folder.

    What lies in `folder` (None: operators without files; it need not be there yet) is gone with the
    attempt. `splits` are all
    that this task reads of the source below, before any row came; empty where there is none.
    `state` says where state lies; on disk it is in `folder`. Of a built-in operator `state_bytes`
    may be in memory (None: all). `states` has both by the path of a node, where a context is that
    of a whole chain. `attempt` counts how often the task was begun.
    """

    node: str = ""
    task: int = 0
    n_tasks: int = 1
    folder: Path | None = None
    splits: tuple[str, ...] = ()
    state: StateBackend = "memory"
    state_bytes: int | None = None
    attempt: int = 0
    states: Mapping[str, tuple[StateBackend, int | None]] = field(default_factory=dict)

    def at(self, node: str, folder: Path | None, splits: tuple[str, ...]) -> Context:
        """That of the operator of `node` in a chain of which this is the context."""
        state, room = self.states.get(node, (self.state, self.state_bytes))
        return replace(self, node=node, folder=folder, splits=splits, state=state, state_bytes=room)


@dataclass(frozen=True, slots=True)
class Files:
    """A snapshot of some bytes by name; without any there is no state."""

    files: Mapping[str, bytes | pa.Buffer] = field(default_factory=dict)

    def write(self, out: SnapshotWriter) -> int:
        """One file each, without rows by key."""
        for name, data in self.files.items():
            out.put(name, data)
        return 0


@dataclass(frozen=True, slots=True)
class KeptState:
    """What an operator keeps by key, as others read it: rows of `schema`, found by `keys`.

    Without `keys` there is one row at most. Columns have plain types: no dictionaries, no views.
    """

    name: str
    schema: pa.Schema
    keys: tuple[str, ...]


class Operator(ABC):
    """Turns batches into batches, one input batch at a time."""

    def open(self, context: Context) -> None:  # noqa: B027 - an operator need not care
        """Before the first call."""

    def on_split(self, split: str) -> None:  # noqa: B027
        """The batches that follow are of this split of a source; "": of no single one."""

    def on_split_end(self, split: str) -> None:  # noqa: B027
        """A split of the source has no more rows."""

    def held_back(self) -> frozenset[str]:
        """Splits that are not to be read until others have caught up with them."""
        return frozenset()

    def slowest(self) -> int | None:
        """The watermark of its slowest split, for the tasks that read the others (`END_OF_TIME`:
        none moves); None: splits need not stay together."""
        return None

    def on_watermark_alignment(self, time_us: int) -> None:  # noqa: B027
        """The `slowest` of all other tasks."""

    @abstractmethod
    def on_batch(self, input: int, batch: pa.RecordBatch) -> Batches:
        """Take rows of `input` (0 is the first); returns what comes out, in order."""

    def on_watermark(self, time_us: int) -> Batches:
        """No earlier event time will come; returns what that completes."""
        return []

    @property
    def untimed(self) -> frozenset[int]:
        """Inputs that have no event time, and hold nobody's back."""
        return frozenset()

    def on_input_times(self, times_us: Sequence[int], now_us: int) -> None:  # noqa: B027
        """It is `now_us`, and the watermarks of its inputs are these; of several inputs alone."""

    def on_time(self, now_us: int) -> Batches:
        """It is `now_us` (processing time, never less than before); returns what is due."""
        return []

    _rest: Iterator[Batches] | None = None

    def gradually(self, results: Iterator[Batches]) -> Batches:
        """Put out what is made as somebody asks for it; returns the first."""
        assert self._rest is None, "more of the last call is still to come"
        self._rest = results
        return self.more()

    @property
    def has_more(self) -> bool:
        """Whether the last call completed more than it returned: `more` puts that out."""
        return self._rest is not None

    def more(self) -> Batches:
        """Some of what is still to come. Meanwhile time stands still for who gets the rows."""
        found = None if self._rest is None else next(self._rest, None)
        if found is None:
            self._rest = None
        return found or []

    @property
    def is_full(self) -> bool:
        """Whether it wants no more rows for now. Unlike `has_more` this holds back nothing else;
        `more` then waits a little for room, and returns what came out meanwhile."""
        return False

    def silent_until(self) -> int:
        """No row or watermark makes it put anything out, aside neither, before a watermark of this
        comes in; `BEGINNING`: any may. What is for a silent operator need not hurry."""
        return BEGINNING

    def watermark(self, time_us: int) -> int:
        """The watermark that leaves it, where `time_us` came in with the last `on_watermark`."""
        return time_us

    def take_side(self) -> dict[str, Batches]:
        """Rows for its side outputs since the last call, by tag."""
        return {}

    def counts(self) -> dict[str, int]:
        """What it has counted since `open` that people ask for, such as ``late_rows``."""
        return {}

    def on_barrier(self, checkpoint: int) -> Snapshot:
        """The state as of now, quickly; rows that come later are not in it."""
        return Files()

    def on_final(self) -> Snapshot:
        """What other tasks may still need of it when its own has ended; none of its keys."""
        return Files()

    def on_complete(self, checkpoint: int) -> None:  # noqa: B027
        """Checkpoint `checkpoint` is complete everywhere."""

    def on_abort(self, checkpoint: int) -> None:  # noqa: B027
        """Checkpoint `checkpoint` will not be completed."""

    def on_end(self, input: int) -> Batches:
        """`input` has ended; returns what that completes."""
        return []

    def restore(  # noqa: B027
        self, snapshots: Sequence[SnapshotReader], key_groups: range
    ) -> None:
        """Continue from snapshots: several of them when the number of tasks has changed."""

    def kept_states(self) -> tuple[KeptState, ...]:
        """What it keeps by key; known before `open`."""
        return ()

    def kept_rows(
        self, state: str, snapshot: SnapshotReader, wanted: Wanted
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one of `kept_states` that a snapshot has of what is wanted, in no order.

        Of keys, which are read from an `OpenedSnapshot`, those of others may be among them. Called
        of an operator that is not opened, and takes no other call: it opens itself in memory, calls
        no user's function, and is closed when the rows are at their end.
        """
        return iter(())

    def close(self) -> None:  # noqa: B027
        """After the last call, also after an error."""

    @property
    def done(self) -> bool:
        """Whether no input can change the output any more."""
        return False
