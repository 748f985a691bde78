"""The files that a program under test has in a folder, while it goes on."""

from __future__ import annotations

import os
from pathlib import Path


def files_in(folder: Path) -> list[Path]:
    """All files under `folder`, sorted; one that is removed meanwhile may be there or not.

    `Path.rglob` ends in a FileNotFoundError when a folder is removed between its being listed
    and its being opened: a running job removes old checkpoints and what it had put on disk.
    """
    return sorted(Path(root) / name for root, _, names in os.walk(folder) for name in names)
