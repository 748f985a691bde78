"""Snapshots of streams that clients look keys up in, again and again.

    a task of a node ─► its snapshot of the newest checkpoint that was asked for, opened once

One job: `OpenedSnapshots`. At most one a task stays open: when the next checkpoint is read it takes
over the files that have not changed. So no removed checkpoint keeps room on the disk for longer
than `IDLE_S` after its last reader, and no reader gets rows of another one.
"""

from __future__ import annotations

import threading
import time
import weakref
from dataclasses import dataclass
from pathlib import Path

from fabric.checkpoint.manifest import Manifest, TaskSnapshot
from fabric.checkpoint.places import Storage
from fabric.state.opened import OpenedSnapshot, opened

IDLE_S = 60.0
"""What nobody has read for so long is closed."""
OPENED_MAX = 256
BYTES_MAX = 256 << 20
"""Of memory, for where rows are in their files."""

_Task = tuple[str, str, int]
"""Job, node and number of a task."""


@dataclass(slots=True)
class _Opened:
    manifest: Manifest
    snapshot: OpenedSnapshot
    asked_s: float


class OpenedSnapshots:
    """Those of one agent, with files in `folder`; thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._tasks: dict[_Task, _Opened] = {}
        """The one that was asked for last is the last one."""
        self._timer: threading.Timer | None = None

    def of(self, storage: Storage, manifest: Manifest, task: TaskSnapshot) -> OpenedSnapshot:
        """What `task` stored for the checkpoint of `manifest`."""
        key = (manifest.job, task.node, task.task)
        now = time.monotonic()
        with self._lock:
            known = self._tasks.pop(key, None)
            if known is None or known.manifest is not manifest:
                known = self._opened(storage, manifest, task, known)
                self._make_room()
                self._watch()
            known.asked_s = now
            self._tasks[key] = known
            return known.snapshot

    def tidy(self, now: float) -> None:
        """Close what nobody reads any more; `now` is monotonic."""
        with self._lock:
            for key, known in list(self._tasks.items()):
                if now - known.asked_s > IDLE_S:
                    del self._tasks[key]

    def _opened(
        self, storage: Storage, manifest: Manifest, task: TaskSnapshot, before: _Opened | None
    ) -> _Opened:
        contents = {file.name: file.content for file in task.files if file.is_shared}
        reader = storage.reader(manifest, task)
        held = None if before is None else before.snapshot
        return _Opened(manifest, opened(reader, self._folder, contents, held), 0.0)

    def _make_room(self) -> None:
        """Have room for one more."""
        n_bytes = sum(known.snapshot.nbytes for known in self._tasks.values())
        for key in list(self._tasks):
            if len(self._tasks) < OPENED_MAX and n_bytes <= BYTES_MAX:
                return
            n_bytes -= self._tasks.pop(key).snapshot.nbytes

    def _watch(self) -> None:
        """Have somebody come back when the readers have gone."""
        if self._timer is None:
            self._timer = threading.Timer(IDLE_S, _look_again, [weakref.ref(self)])
            self._timer.daemon = True
            self._timer.start()

    def _again(self) -> None:
        self.tidy(time.monotonic())
        with self._lock:
            self._timer = None
            if self._tasks:
                self._watch()


def _look_again(ref: weakref.ref[OpenedSnapshots]) -> None:
    if (snapshots := ref()) is not None:
        snapshots._again()
