"""A sink that holds its job open until a file exists, for tests, which look at a job while it runs.

Rows are counted and dropped; `prepare` waits for the gate's file, looking every `POLL_S`, until
`abandon`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pyarrow as pa

from fabric.checkpoint.manifest import FINAL
from fabric.errors import CancelledError
from fabric.ids import TaskId, check_name
from fabric.io.sinks.protocol import Handle, SinkStart, SinkWriter
from fabric.plan.targets import GateTarget

POLL_S = 0.02


def open_sink(
    target: GateTarget, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
) -> GateSink:
    """The writer of a task."""
    return GateSink(target)


def gate_file(name: str) -> Path:
    """The file that opens gate `name`: in ``FABRIC_GATES``, else the temporary folder."""
    folder = os.environ.get("FABRIC_GATES") or str(Path(tempfile.gettempdir()) / "fabric-gates")
    return Path(folder) / check_name(name, "gate")


class GateSink(SinkWriter):
    """Waits at `prepare`; `abandon` from another thread ends the wait."""

    def __init__(self, target: GateTarget) -> None:
        self.name, self.n_rows = target.name, 0
        self._file = gate_file(target.name)
        self._abandoned = Event()

    def write(self, batch: pa.RecordBatch) -> None:
        """Count rows."""
        if self._abandoned.is_set():
            raise CancelledError(f"gate {self.name} was abandoned")
        self.n_rows += batch.num_rows

    def prepare(self, checkpoint: int = FINAL) -> bytes:
        """Wait for the gate; raises `CancelledError` once abandoned."""
        while not self._file.exists():
            if self._abandoned.wait(POLL_S):
                raise CancelledError(f"gate {self.name} was abandoned before it opened")
        return Handle("gate", {"name": self.name, "rows": self.n_rows}).encode()

    def abandon(self) -> None:
        """End the wait."""
        self._abandoned.set()


def publish(handles: Sequence[Handle]) -> None:
    """Nothing was written."""


def abandon(handles: Sequence[Handle]) -> None:
    """Nothing was written."""
