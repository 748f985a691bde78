"""Operators with less memory than their groups need.

One job: `below`, where an operator runs then, and `ROOMS`, how much memory it may be given.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fabric.operators.contract import Context

ROOMS = [None, 1, 40_000]
"""All it wants; none, so that all groups go down with each batch; and bytes for some groups."""


@contextmanager
def below(room: int | None) -> Iterator[Context]:
    """Where groups go down to files when they take more than `room` bytes; nothing may be left."""
    if room is None:
        yield Context("tested")
        return
    with tempfile.TemporaryDirectory(prefix="fabric-test-") as folder:
        yield Context("tested", folder=Path(folder), state="arrow", state_bytes=room)
        assert not [path for path in Path(folder).rglob("*") if path.is_file()]
