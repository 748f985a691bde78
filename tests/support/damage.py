"""Checkpoints that are damaged just before somebody goes on from them.

One job: `damaged_when_read`: whatever a test does to the files of a checkpoint is done when a
coordinator of this process first looks at one to restore it, so no newer one can come between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fabric.checkpoint.folder import checkpoint_folder
from fabric.checkpoint.manifest import Manifest, Seal
from fabric.checkpoint.storage import FolderStorage

Change = Callable[[Path], object]
"""Given the folder of the checkpoint."""


@dataclass
class Damaged:
    """What was damaged; 0: nothing yet."""

    checkpoint: int = 0


@contextmanager
def damaged_when_read(change: Change) -> Iterator[Damaged]:
    """Do `change` to the first checkpoint of any job that is about to be loaded, once."""
    made, load = Damaged(), FolderStorage.load

    def loading(
        self: FolderStorage, job: str, checkpoint: int, seal: Seal | None = None
    ) -> Manifest:
        if not made.checkpoint:
            made.checkpoint = checkpoint
            change(checkpoint_folder(self._root, job, checkpoint))
        return load(self, job, checkpoint, seal)

    FolderStorage.load = loading  # type: ignore[method-assign]
    try:
        yield made
    finally:
        FolderStorage.load = load  # type: ignore[method-assign]


def flip(path: Path, at: int) -> None:
    """Change one bit of one byte of a file, under all of its names."""
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 0x10]))
