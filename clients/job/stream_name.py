"""What a start of a stream with a name asks for.

One job: `StreamName`, the name with all that goes with it, and `restoring`, by which a command asks
for more than the program does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple

from fabric.errors import PlanError

if TYPE_CHECKING:
    from fabric.control import control_pb2 as pb

OnExisting = Literal["continue", "new", "fail"]
Parallelism = int | Literal["slots"]
"""Tasks of each stage of a stream; "slots": as many as there are slots for it."""
"""What to do when a stream of a name has checkpoints already."""


class StreamName(NamedTuple):
    """The name that the state of a stream belongs to."""

    name: str
    on_existing: OnExisting = "continue"
    restore: str = ""
    renames: tuple[tuple[str, str], ...] = ()
    drop: tuple[str, ...] = ()

    def message(self) -> pb.StreamName:
        """As it travels."""
        from fabric.control import control_pb2 as pb  # for start-up time: it brings protobuf

        return pb.StreamName(**{**self._asdict(), "renames": dict(self.renames)})

    def asked(self) -> StreamName:
        """With what `restoring` asks for; only the first stream of its block is asked for it."""
        if not _RESTORING:
            return self
        more = _RESTORING.pop()
        return self._replace(
            restore=more.restore, renames=self.renames + more.renames, drop=self.drop + more.drop
        )


_RESTORING: list[StreamName] = []


@contextmanager
def restoring(asked: StreamName) -> Iterator[None]:
    """In the block the first stream with a name goes on as if its program said so.

    Raises
    ------
    PlanError
        At the end: no stream with a name was started.
    """
    _RESTORING.append(asked)
    try:
        yield
        if asked in _RESTORING:
            raise PlanError(
                f"no stream with a name was started, so {asked.restore!r} was not restored; write: "
                'write_stream(…, name="clicks")'
            )
    finally:
        _RESTORING.clear()
