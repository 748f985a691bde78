"""What every reader of a stream has.

One job: `StreamReader`, the words that `poll` answers with, and `Cursor`, the part that differs
from source to source. One thread owns a reader; only `interrupt` may come from another one.
Positions of splits travel as canonical JSON with a version and the kind of source, so that a
position is never taken for another source's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from fabric.errors import DataError
from fabric.plan.sources import Split
from fabric.plan.stream import BAD_RECORD_SCHEMA, UNREADABLE_SCHEMA


@dataclass(frozen=True, slots=True)
class Polled:
    """Rows of one split, in its order."""

    split: str
    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Ended:
    """This split has no more rows; said once a split, also after a `seek` to its end."""

    split: str


class Poll(Enum):
    """What `poll` says when it has no rows."""

    IDLE = "idle"
    """Nothing now."""
    END = "end"
    """All splits have ended."""


IDLE, END = Poll.IDLE, Poll.END


class StreamReader(Protocol):
    """The splits that one task reads. Calls: open, [seek], then the others; close at the end."""

    def open(self, splits: Sequence[Split]) -> None:
        """Take these splits (perhaps none: then the stream has ended), from their beginnings."""

    def seek(self, positions: Mapping[str, bytes]) -> None:
        """Go on where `positions` say; splits that they leave out begin at the beginning."""

    def poll(self, rows_max: int, wait_s: float, gather_s: float = 0.0) -> Polled | Ended | Poll:
        """At most `rows_max` rows of one split, or `IDLE` after about `wait_s` without any.

        Rows may be kept for `gather_s` so that more of them are handed out at once; not where
        `rows_max` of a split are there.
        """

    def take_unreadable(self) -> Sequence[Unreadable | BadRecord]:
        """What `poll` has left out since the last call; positions count it as read."""

    def counts(self) -> dict[str, int]:
        """What it knows of its splits in numbers, such as how many rows wait, by name."""

    def pause(self, splits: frozenset[str]) -> None:
        """Hand out nothing of these until the next call says otherwise."""

    def positions(self) -> dict[str, bytes]:
        """By split: where to go on behind what `poll` has handed out."""

    def on_complete(self, checkpoint: int) -> None:
        """A checkpoint with the positions of the last `on_barrier` of this id is complete."""

    def on_barrier(self, checkpoint: int) -> dict[str, bytes]:
        """The `positions` that checkpoint `checkpoint` holds."""

    def interrupt(self) -> None:
        """From any thread: a `poll` that waits, else the next one that would, answers `IDLE`."""

    def close(self) -> None:
        """Let go of files and memory; nothing is called afterwards but `interrupt`."""


@dataclass(frozen=True, slots=True)
class Share:
    """Which splits that are found while a stream runs are read here: those of a task of several."""

    task: int = 0
    n_tasks: int = 1


ALL_OF_IT = Share()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A part of a file that was left out: from byte or row `offset` on; `data` when it is known."""

    file: str
    offset: int
    data: bytes | None
    error: str

    schema: ClassVar[pa.Schema] = UNREADABLE_SCHEMA

    @property
    def where(self) -> str:
        """For people."""
        return self.file


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record of Kafka that was left out; `data` is its value's bytes, or its key's."""

    topic: str
    partition: int
    offset: int
    data: bytes | None
    error: str

    schema: ClassVar[pa.Schema] = BAD_RECORD_SCHEMA

    @property
    def where(self) -> str:
        """For people."""
        return f"topic {self.topic}, partition {self.partition}"


@dataclass(frozen=True, slots=True)
class Later:
    """A cursor's answer: nothing now, ask again after `seconds`, or when `wake` was called."""

    seconds: float


class Cursor(Protocol):
    """One split being read, without any waiting."""

    gather_s: float
    """How long rows may be kept to be handed out together; a clock that deals out goes by it."""

    def read(self, rows_max: int) -> pa.RecordBatch | Later | None:
        """The next rows (at least one), or when to ask again; None at the end, for ever."""

    def take_unreadable(self) -> Sequence[Unreadable | BadRecord]:
        """What `read` has left out since the last call."""

    def head(self) -> float:
        """Who has the least is read first, e.g. event time; the same for all: in turn."""

    def position(self) -> dict[str, Any]:
        """Where it is, for `seek`: small and JSON."""

    def seek(self, position: dict[str, Any]) -> None:
        """Go to where `position` was taken."""

    def on_barrier(self, checkpoint: int) -> None:
        """The position as of now goes into this checkpoint."""

    def on_complete(self, checkpoint: int) -> None:
        """That checkpoint is complete: what came before its barrier will not be asked for again."""

    def close(self) -> None:
        """Let go of everything."""


OpenCursor = Callable[[Split, Callable[[], None]], Cursor]
"""Opens a split; the function given to it wakes a `poll` that waits, from any thread."""


VERSION = 1


def encode(kind: str, position: dict[str, Any]) -> bytes:
    """The bytes that a checkpoint keeps; equal positions give equal bytes."""
    facts = {"v": VERSION, "kind": kind, **position}
    return json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()


def decode(kind: str, split: str, data: bytes) -> dict[str, Any]:
    """The position of `split`; raises `DataError` for anything that `encode` did not make.

    >>> decode("generator", "0-of-1", encode("generator", {"row": 7}))
    {'row': 7}
    """
    try:
        facts = json.loads(data)
        version, found = facts.pop("v"), facts.pop("kind")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise DataError(f"{data[:80]!r} is not a position of split {split!r}") from error
    if version != VERSION:
        raise DataError(
            f"the position of split {split!r} has version {version!r}, this Fabric reads {VERSION}"
        )
    if found != kind:
        raise DataError(
            f"the position of split {split!r} is one of a {found!r} stream, its source is "
            f"{kind!r}; start without this checkpoint"
        )
    return dict(facts)
