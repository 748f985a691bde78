"""Where a task of a stream writes: its sink, or the rows of a result that nobody has read yet.

`StreamSink` has a writer that prepares at each barrier, and the handles that are still to be
published: what it writes is seen checkpoint by checkpoint.

`Results` makes rows that lie in this agent's store part of a task's state. A stream that starts
again goes on behind rows that it has put out before; those that lay with a lost attempt come back
from here. The rows of each checkpoint are one file, which later checkpoints refer to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa

from fabric import failpoints
from fabric.checkpoint.manifest import FINAL, SinkHandle
from fabric.ids import new_id
from fabric.io.sinks.protocol import SinkWriter
from fabric.operators.contract import Files
from fabric.operators.snapshots import Joint, hashes_of, parts_of
from fabric.state.backend import Snapshot, SnapshotReader, SnapshotWriter

_STATE = "state"


@dataclass(frozen=True, slots=True)
class Part:
    """The rows between two checkpoints; `batches` until they lie in `path`."""

    name: str
    path: Path
    schema: pa.Schema
    batches: tuple[pa.RecordBatch, ...] = ()

    def let_go(self) -> Part:
        """Itself, without rows in memory if they lie in the file."""
        return replace(self, batches=()) if self.batches and self.path.exists() else self

    def store(self) -> None:
        """Write the file, once."""
        if not self.path.exists():
            aside = self.path.with_suffix(".aside")
            with pa.OSFile(str(aside), "wb") as file, pa.ipc.new_file(file, self.schema) as writer:
                for batch in self.batches:
                    writer.write_batch(batch)
            aside.rename(self.path)


@dataclass(frozen=True, slots=True)
class ResultSnapshot:
    """Everything put out before a barrier, as files."""

    parts: tuple[Part, ...]

    def write(self, out: SnapshotWriter) -> int:
        """See `Snapshot`; only the newest part is written, the others are known."""
        for part in self.parts:
            part.store()
            out.link(part.name, part.path, part.name)
        return 0


class Results:
    """What one task has put out for whoever collects the result; in `folder`, made by the task."""

    def __init__(self, schema: pa.Schema, folder: Path) -> None:
        self._schema, self._folder = schema, folder
        self._parts: list[Part] = []
        self._fresh: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """These rows were put out."""
        self._fresh.append(batch)

    def on_barrier(self) -> ResultSnapshot:
        """All rows up to now."""
        self._parts = [part.let_go() for part in self._parts]
        if self._fresh:
            name = f"{len(self._parts):08d}-{new_id('rows')}.arrow"
            self._parts.append(Part(name, self._folder / name, self._schema, tuple(self._fresh)))
            self._fresh = []
        return ResultSnapshot(tuple(self._parts))

    def restore(self, snapshots: Sequence[SnapshotReader]) -> Iterator[pa.RecordBatch]:
        """The rows that were put out before, in order; they count as put out again."""
        for snapshot in snapshots:
            for name in snapshot.names():
                path = self._folder / name
                snapshot.fetch(name, path)
                self._parts.append(Part(name, path, self._schema))
                with pa.memory_map(str(path)) as source:
                    reader = pa.ipc.open_file(source)
                    for index in range(reader.num_record_batches):
                        yield reader.get_batch(index)


@runtime_checkable
class StatefulWriter(Protocol):
    """A writer whose rows are part of the checkpoint, as those of a view."""

    def snapshot(self) -> Snapshot:
        """What it had when it prepared last."""

    def restore(self, snapshots: Sequence[SnapshotReader], hashes: tuple[int, int]) -> None:
        """Go on with the rows of a checkpoint whose keys have these hashes."""

    def counts(self) -> Mapping[str, int]:
        """What it holds, for `Job.status`."""


class StreamSink:
    """Rows, barriers and what came of them; `rows` counts all since the stream began."""

    def __init__(self, node: str, writer: SinkWriter) -> None:
        self.node, self.writer = node, writer
        self.rows, self.is_broken = 0, False
        """Broken: it did not prepare what was written, which ends the task."""
        self._handles: list[SinkHandle] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows aside."""
        self.writer.write(batch)
        self.rows += batch.num_rows

    def on_barrier(self, checkpoint: int) -> tuple[SinkHandle, ...]:
        """What is to be published with `checkpoint`, earlier ones that were given up included."""
        self._prepare(checkpoint)
        failpoints.reach("stream.sink-prepared")
        return tuple(self._handles)

    def on_end(self) -> tuple[SinkHandle, ...]:
        """The same for what the task has at its end."""
        self._prepare(FINAL)
        return tuple(self._handles)

    def snapshot(self) -> Snapshot:
        """How many rows were written, and the writer's state: of what was prepared last."""
        rows = Files({"rows": self.rows.to_bytes(8, "little")})
        if isinstance(self.writer, StatefulWriter):
            return Joint({"": rows, _STATE: self.writer.snapshot()})
        return rows

    def restore(
        self, snapshots: Sequence[SnapshotReader], key_groups: range, *, counts: bool
    ) -> None:
        """Go on from a checkpoint; `counts`: with the rows that all tasks had written."""
        if counts:
            for each in snapshots:
                self.rows += int.from_bytes(each.read("rows").to_pybytes(), "little")
        if isinstance(self.writer, StatefulWriter):
            states = [part for part in parts_of(snapshots, _STATE) if part.names()]
            self.writer.restore(states, hashes_of(key_groups))

    def counts(self) -> dict[str, dict[str, int]]:
        """What the writer holds, by node path."""
        if isinstance(self.writer, StatefulWriter):
            return {self.node: dict(self.writer.counts())}
        return {}

    def _prepare(self, checkpoint: int) -> None:
        try:
            self._handles.append(SinkHandle(checkpoint, self.writer.prepare(checkpoint)))
        except BaseException:
            self.is_broken = True
            raise

    def on_complete(self, checkpoint: int) -> None:
        """That checkpoint is complete: what it has is the coordinator's."""
        self._handles = [handle for handle in self._handles if handle.checkpoint > checkpoint]
        self.writer.on_complete(checkpoint)
