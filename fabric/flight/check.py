"""Whether the messages of an edge follow each other rightly (design 4.2).

One job: a pure check on the receiving side. Duplicates within one attempt are dropped and counted;
gaps, other attempts, wrong totals and damaged rows are a `PartitionLostError` that names agent,
producing task and partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from fabric._cython.shuffle.checksum import batch_crc32c
from fabric.errors import DataError, FabricError, PartitionLostError
from fabric.flight.header import EdgeHeader, Event, decode_header


@dataclass(slots=True)
class _Progress:
    """How far one producer has come."""

    attempt: int
    sequence: int = 0
    rows: int = 0
    ended: bool = False


class StreamCheck:
    """Checks one stream of (header, batch) of `job`, `edge`.

    `partition` None lets messages name any partition. `checksums` False skips the CRC, for streams
    that never left the process.
    """

    def __init__(
        self,
        *,
        job: str,
        edge: int,
        producers: Iterable[tuple[int, int]],
        partition: int | None = None,
        node: str = "",
        agent: str = "",
        checksums: bool = True,
    ) -> None:
        self._job, self._edge, self._partition = job, edge, partition
        self._node, self._agent, self._checksums = node, agent, checksums
        self._producers = {task: _Progress(attempt) for task, attempt in producers}
        self.duplicates = 0

    def decode(self, data: bytes | None) -> EdgeHeader:
        """Read a header; a missing or damaged one is a lost partition too."""
        try:
            return decode_header(data or b"")
        except DataError as error:
            raise self._lost(error.message, "?") from error

    def accept(self, header: EdgeHeader, batch: pa.RecordBatch | None) -> bool:
        """Check one message; False means: seen before, drop it."""
        progress = self._of(header)
        task = f"{header.producer}#{header.attempt}"
        if header.sequence < progress.sequence:
            self.duplicates += 1
            return False
        if header.sequence > progress.sequence:
            missing = header.sequence - progress.sequence
            raise self._lost(f"{missing} messages are missing before {header.sequence}", task)
        if progress.ended:
            raise self._lost("a message came after the end", task)
        progress.sequence += 1
        if header.event is Event.ROWS:
            self._check_rows(header, batch, task)
            progress.rows += 0 if batch is None else batch.num_rows
        elif header.event is Event.END:
            self._check_end(header, progress, task)
        return True

    def finish(self) -> None:
        """The stream is over: every producer must have ended."""
        open_ones = [f"{t}#{p.attempt}" for t, p in self._producers.items() if not p.ended]
        if open_ones:
            raise self._lost("the stream ended before its rows did", ", ".join(open_ones[:5]))

    def _of(self, header: EdgeHeader) -> _Progress:
        task = f"{header.producer}#{header.attempt}"
        if (header.job, header.edge) != (self._job, self._edge):
            raise self._lost(f"the answer belongs to {header.job}/e{header.edge}", task)
        progress = self._producers.get(header.producer)
        if progress is None:
            raise self._lost("nobody asked for this producer", task)
        if header.attempt != progress.attempt:
            age = "an older" if header.attempt < progress.attempt else "a newer"
            raise self._lost(f"{age} attempt than {progress.attempt} answered", task)
        return progress

    def _check_rows(self, header: EdgeHeader, batch: pa.RecordBatch | None, task: str) -> None:
        if batch is None or sum(n for _, n in header.partitions) != batch.num_rows:
            raise self._lost("a message holds other rows than its header says", task)
        if self._partition is not None and any(p != self._partition for p, _ in header.partitions):
            raise self._lost("a message holds rows of another partition", task)
        if self._checksums and batch_crc32c(batch) != header.crc32c:
            raise self._lost("a message arrived damaged: its checksum differs", task)

    def _check_end(self, header: EdgeHeader, progress: _Progress, task: str) -> None:
        if header.total_rows != progress.rows:
            raise self._lost(f"{progress.rows} of {header.total_rows} rows arrived", task)
        progress.ended = True

    def _lost(self, what: str, task: str) -> FabricError:
        partition = "" if self._partition is None else f"partition {self._partition} of "
        return PartitionLostError(
            f"{partition}edge {self._edge} from task {task}: {what}",
            job=self._job,
            node=self._node,
            task=task,
            agent=self._agent,
        )
