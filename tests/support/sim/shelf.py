"""The partitions of a simulated agent: in memory, gone with the process.

One job: `Shelf`. Output is written by one task attempt, sealed, and read until its job is released;
nobody reads what is not sealed. Output of pipelined edges is read while it is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from fabric.errors import PartitionLostError
from tests.support.sim.rows import Partitions, Row


class Place(NamedTuple):
    """What one task attempt writes on one edge."""

    job: str
    edge: int
    task: int
    attempt: int


class Read(NamedTuple):
    """Asks for rows of a sealed output, or (`n_taken` given) of a pipelined one after that many."""

    place: Place
    partition: int
    n_taken: int | None = None


class Rows(NamedTuple):
    """Some rows of a partition; `ended`: there will be no more after them."""

    rows: tuple[Row, ...]
    ended: bool


@dataclass(slots=True)
class _Output:
    parts: list[list[Row]] = field(default_factory=list)
    sealed: bool = False
    piped: bool = False


class Shelf:
    """Outputs by place."""

    def __init__(self) -> None:
        self._outputs: dict[Place, _Output] = {}
        self._discarded: dict[Place, None] = {}

    def jobs(self) -> list[str]:
        """Jobs that hold anything here."""
        return sorted({place.job for place in self._outputs})

    def begin(self, place: Place, n_partitions: int, *, piped: bool = False) -> None:
        """Open an output; what the same attempt wrote before is dropped."""
        self._outputs[place] = _Output([[] for _ in range(n_partitions)], piped=piped)

    def append(self, place: Place, partitions: Partitions) -> None:
        """Add rows; without effect once the job was dropped."""
        if (output := self._outputs.get(place)) is not None:
            for part, rows in zip(output.parts, partitions, strict=True):
                part.extend(rows)

    def seal(self, place: Place) -> bool:
        """From now on it never changes; whether it was still there."""
        if (output := self._outputs.get(place)) is None:
            return False
        output.sealed = True
        return True

    def discard(self, place: Place) -> None:
        """Drop the output of an attempt that did not succeed."""
        if self._outputs.pop(place, None) is not None:
            self._discarded[place] = None

    def drop_pipes(self, job: str) -> None:
        """Drop the pipelined outputs of a job."""
        for place, output in list(self._outputs.items()):
            if place.job == job and output.piped:
                self.discard(place)

    def release(self, job: str) -> None:
        """Drop everything of a job."""
        for kept in (self._outputs, self._discarded):
            for place in [place for place in kept if place.job == job]:
                del kept[place]

    def holds(self, place: Place) -> bool:
        """Whether a sealed output is here."""
        return place in self._outputs and self._outputs[place].sealed

    def read(self, place: Place, partition: int) -> Rows:
        """The rows of a sealed output; `PartitionLostError` when it is not here or not sealed."""
        output = self._outputs.get(place)
        if output is None or not self.readable(output):
            raise PartitionLostError(f"the output {place} is not sealed here", job=place.job)
        return Rows(tuple(output.parts[partition]), True)

    def readable(self, output: _Output) -> bool:
        """Whether rows of a materialised output may leave."""
        return output.sealed

    def take(self, place: Place, partition: int, n_taken: int) -> Rows | None:
        """Rows of a pipelined output after the first `n_taken`; None: it is not begun here.

        `PartitionLostError` when its attempt failed.
        """
        if place in self._discarded:
            raise PartitionLostError(f"the attempt that wrote {place} failed", job=place.job)
        output = self._outputs.get(place)
        if output is None:
            return None
        return Rows(tuple(output.parts[partition][n_taken:]), output.sealed)
