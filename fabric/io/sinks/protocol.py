"""What every sink has, the handle that names prepared output, and output cut at barriers.

One job: `SinkWriter`, of bounded jobs and of streams, and `Handle`: JSON with a version and a kind,
so that any agent can publish what another one prepared.

`Epochs` is a `SinkWriter` over one `SinkWriter` a portion. A portion is what a task wrote between
two barriers. When a checkpoint is given up while the job goes on, the rows before its barrier still
belong to the next one: so a handle names all portions that are not known to be complete, and to
publish a portion twice is to publish it once.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from fabric.checkpoint.manifest import FINAL
from fabric.config import StateBackend
from fabric.errors import CancelledError, InternalError
from fabric.plan.places import FilePlace, Settings
from fabric.plan.targets import Target

VERSION = 1
PORTIONS = "portions"
"""The kind of a handle that is several others."""


class SinkStart(NamedTuple):
    """Which start of a sink's tasks this is, and the job's folder, which is the same for all hosts.

    What can't be put aside at the target lies in `folder`. A sink with state keeps it as `state`
    says, in files below `scratch`.
    """

    run: int = 0
    folder: str = ""
    scratch: Path | None = None
    state: StateBackend = "memory"


class SinkWriter(ABC):
    """One task's output to the outside, of a bounded job or of a stream."""

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows aside; nobody sees them yet."""

    @abstractmethod
    def prepare(self, checkpoint: int = FINAL) -> bytes:
        """Make all rows durable; returns the handle that publishes or abandons them.

        Called at the barrier of `checkpoint`, and once at the end (`FINAL`): of a bounded job, the
        only time.
        """

    def on_complete(self, checkpoint: int) -> None:  # noqa: B027 (most need not care)
        """`checkpoint` is complete: its handle has been written down, and will be published."""

    def interrupt(self) -> None:  # noqa: B027 (most wait for nobody, or not for long)
        """The task is cancelled: wait for nobody any more; may be called from any thread."""

    @abstractmethod
    def abandon(self) -> None:
        """Remove what no handle names; may be called from any thread, at any time, twice."""


@dataclass(frozen=True, slots=True)
class Handle:
    """What `prepare` made: `kind` says which module can publish it from `facts`."""

    kind: str
    facts: dict[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """As bytes, to travel."""
        return json.dumps({"v": VERSION, "kind": self.kind, **self.facts}).encode()

    @staticmethod
    def decode(data: bytes) -> Handle:
        """The handle in `data`; raises `InternalError` for anything else.

        >>> Handle.decode(Handle("gate", {"name": "g"}).encode()).facts
        {'name': 'g'}
        """
        try:
            facts = json.loads(data)
            if facts.pop("v") != VERSION:
                raise ValueError("another version")
            return Handle(facts.pop("kind"), facts)
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise InternalError(f"{data[:80]!r} is not a sink handle") from error


def portions(handles: Sequence[bytes]) -> bytes:
    """One handle for what several others name; it may be empty."""
    return Handle(PORTIONS, {"of": [handle.decode() for handle in handles]}).encode()


def unfolded(handles: Sequence[bytes]) -> Iterator[Handle]:
    """The handles in `handles`, those of `portions` one by one, each once.

    >>> one = Handle("gate", {"name": "g"}).encode()
    >>> [handle.kind for handle in unfolded([one, portions([one, one]), portions([])])]
    ['gate']
    """
    seen: set[bytes] = set()
    for data in handles:
        handle = Handle.decode(data)
        if handle.kind == PORTIONS:
            inner = [text.encode() for text in handle.facts["of"]]
        else:
            inner = [data]
        for one in inner:
            if one not in seen:
                seen.add(one)
                yield Handle.decode(one)


def grouped(handles: Iterable[Handle], *names: str) -> list[list[dict[str, Any]]]:
    """The facts of handles, those together that have the same under `names`, in their order.

    >>> found = [Handle("gate", {"name": name}) for name in "aba"]
    >>> grouped(found, "name")
    [[{'name': 'a'}, {'name': 'a'}], [{'name': 'b'}]]
    """
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for handle in handles:
        found.setdefault(tuple(handle.facts[name] for name in names), []).append(handle.facts)
    return list(found.values())


def known_store(handles: Iterable[Handle], target: Target | None) -> Settings | None:
    """The options by which the store of objects in `handles` is opened; None: it has some, and
    nobody has said which."""
    if isinstance(target, FilePlace):
        return target.store
    return None if any(handle.facts.get("options") for handle in handles) else ()


def needed_store(handles: Iterable[Handle], target: Target | None) -> Settings:
    """`known_store`, which must be known."""
    if (store := known_store(handles, target)) is None:
        raise InternalError("a sink of objects was not told the options of its store")
    return store


@contextmanager
def whole_or_none(writer: SinkWriter) -> Iterator[None]:
    """An error within the block also removes all that `writer` has written."""
    try:
        yield
    except BaseException:
        writer.abandon()
        raise


class Epochs(SinkWriter):
    """See `SinkWriter`; `open_portion` is given the last barrier that this task has seen."""

    def __init__(self, open_portion: Callable[[int], SinkWriter]) -> None:
        self._open_portion = open_portion
        self._since = 0
        self._portion: SinkWriter | None = None
        self._prepared: list[tuple[int, bytes]] = []
        self._abandoned = False

    def write(self, batch: pa.RecordBatch) -> None:
        """See `SinkWriter.write`."""
        if self._abandoned:
            raise CancelledError("writing to this sink was abandoned")
        if not batch.num_rows:
            return
        if self._portion is None:
            self._portion = self._open_portion(self._since)
        self._portion.write(batch)

    def prepare(self, checkpoint: int = FINAL) -> bytes:
        """See `SinkWriter.prepare`."""
        if self._abandoned:
            raise CancelledError("writing to this sink was abandoned")
        if self._portion is not None:
            handle = self._portion.prepare(checkpoint)
            self._prepared.append((checkpoint, handle))
            self._portion = None
        self._since = checkpoint
        return portions([handle for _, handle in self._prepared])

    def on_complete(self, checkpoint: int) -> None:
        """See `SinkWriter.on_complete`."""
        self._prepared = [(id, handle) for id, handle in self._prepared if id > checkpoint]

    def interrupt(self) -> None:
        """See `SinkWriter.interrupt`."""
        if (portion := self._portion) is not None:
            portion.interrupt()

    def abandon(self) -> None:
        """See `SinkWriter.abandon`."""
        self._abandoned = True
        if (portion := self._portion) is not None:
            portion.abandon()
