"""What readers of streams answer, and what each source brings.

One job: the answers of `StreamReader.poll`, and `Cursor`, the part that differs from source to
source. Positions of splits travel as canonical JSON with a version and the kind of source, so that
a position is never taken for another source's.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import pyarrow as pa

from fabric.errors import DataError
from fabric.plan.sources import Source, Split
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
    """A cursor's answer: nothing now, ask again after `seconds`, or when the reader is woken."""

    seconds: float


class Cursor(ABC):
    """One split being read, without any waiting."""

    gather_s: float = 0.0
    """How long rows may be kept to be handed out together; a clock that deals out goes by it."""
    _unreadable: Sequence[Unreadable | BadRecord] = ()

    @abstractmethod
    def read(self, rows_max: int) -> pa.RecordBatch | Later | None:
        """The next rows (at least one), or when to ask again; None at the end, for ever."""

    def take_unreadable(self) -> Sequence[Unreadable | BadRecord]:
        """What `read` has left out since the last call."""
        found, self._unreadable = self._unreadable, []
        return found

    def head(self) -> float:
        """Who has the least is read first, e.g. event time; the same for all: in turn."""
        return 0.0

    @abstractmethod
    def position(self) -> dict[str, Any]:
        """Where it is, for `seek`: small and JSON."""

    @abstractmethod
    def seek(self, position: dict[str, Any]) -> None:
        """Go to where `position` was taken."""

    def on_barrier(self, checkpoint: int) -> None:  # noqa: B027 (few cursors have any)
        """The position as of now goes into this checkpoint."""

    def on_complete(self, checkpoint: int) -> None:  # noqa: B027 (few cursors have any)
        """That checkpoint is complete: what came before its barrier will not be asked for again."""

    def close(self) -> None:  # noqa: B027 (few cursors have any)
        """Let go of everything."""


OpenCursor = Callable[[Split], Cursor]
"""Opens a split."""
SplitsOf = Callable[[Source], list[Split]]
"""The splits of a bounded source: the coordinator knows those of datasets."""


def numbered(n_splits: int) -> list[Split]:
    """Splits of a source that says itself how many it has."""
    return [Split(f"{index}-of-{n_splits}") for index in range(n_splits)]


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
