"""Operators with less memory than their groups need.

One job: `below`, where an operator runs then, and `ROOMS`, how much memory it may be given. Its
checkpoints have only what changed, however few groups there are and how often they changed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from fabric.config import StateBackend
from fabric.operators.contract import Context
from fabric.operators.streams import deltas


class Tonbo(int):
    """Bytes, with the engine tonbo below them."""


ROOMS = [None, 1, 40_000, Tonbo(40_000)]
"""All it wants; none, so that all groups go down with each batch; and bytes for some groups."""


@contextmanager
def below(room: int | None) -> Iterator[Context]:
    """Where groups go down to files when they take more than `room` bytes; nothing may be left."""
    state: StateBackend = "tonbo" if isinstance(room, Tonbo) else "arrow"
    with (
        tempfile.TemporaryDirectory(prefix="fabric-test-") as folder,
        patch.multiple(deltas, FEW_BYTES=0, MOST_ROWS=1_000),
    ):
        engine: StateBackend = "memory" if room is None else state
        yield Context("tested", folder=Path(folder), state=engine, state_bytes=room)
        assert not [path for path in Path(folder).rglob("*") if path.is_file()]
