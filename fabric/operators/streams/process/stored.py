"""Snapshots of several parts in one folder.

One job: `Joint` writes each part's files under the part's name; `parts_of` reads one part of each
old task's snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from fabric.operators.contract import Snapshot, SnapshotReader, SnapshotWriter


@dataclass(frozen=True, slots=True)
class Joint:
    """Parts by name, of ``[a-z0-9]``."""

    parts: Mapping[str, Snapshot]

    def write(self, out: SnapshotWriter) -> None:
        """One part after the other."""
        for name, part in self.parts.items():
            part.write(_Writer(out, f"{name}."))


def parts_of(snapshots: Sequence[SnapshotReader], name: str) -> list[SnapshotReader]:
    """That part of each snapshot."""
    return [_Reader(snapshot, f"{name}.") for snapshot in snapshots]


@dataclass(frozen=True, slots=True)
class _Writer:
    out: SnapshotWriter
    prefix: str

    def put(self, name: str, data: bytes | pa.Buffer) -> None:
        self.out.put(self.prefix + name, data)

    def link(self, name: str, path: Path, content: str) -> None:
        self.out.link(self.prefix + name, path, content)


@dataclass(frozen=True, slots=True)
class _Reader:
    snapshot: SnapshotReader
    prefix: str

    def names(self) -> list[str]:
        prefix = self.prefix
        names = self.snapshot.names()
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def read(self, name: str) -> pa.Buffer:
        return self.snapshot.read(self.prefix + name)

    def fetch(self, name: str, to: Path) -> None:
        self.snapshot.fetch(self.prefix + name, to)
