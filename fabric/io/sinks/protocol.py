"""What every sink has, and the handle that names prepared output.

One job: `SinkWriter` and `Handle`. A handle is JSON with a version and a kind, so that any agent
can publish what another one prepared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from fabric.errors import InternalError

VERSION = 1
PORTIONS = "portions"
"""The kind of a handle that is several others."""


class SinkWriter(Protocol):
    """One task's output to the outside."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows aside; nobody sees them yet."""

    def prepare(self) -> bytes:
        """Make all rows durable; returns the handle that publishes or abandons them."""

    def abandon(self) -> None:
        """Remove everything written; may be called from any thread, at any time, twice."""


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
