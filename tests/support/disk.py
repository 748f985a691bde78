"""A small disk for a test, which is soon full.

One job: `mounted`, a tmpfs. Tests and CI run as root.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A tmpfs at `folder`, with options of ``mount`` such as ``size=2m``."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
