"""The rows of a result that nobody has read yet, kept with the checkpoints.

One job: make rows that lie in this agent's store part of a task's state. A stream that starts again
goes on behind rows that it has put out before; those that lay with a lost attempt come back from
here. The rows of each checkpoint are one file, which later checkpoints refer to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from fabric.ids import new_id
from fabric.operators.contract import SnapshotReader, SnapshotWriter


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

    def write(self, out: SnapshotWriter) -> None:
        """See `Snapshot`; only the newest part is written, the others are known."""
        for part in self.parts:
            part.store()
            out.link(part.name, part.path, part.name)


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
