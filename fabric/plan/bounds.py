"""The largest numbers that a plan may hold where a number sizes something.

`check_bounds` holds a node, and where it reads or writes, to the bounds that each class says as
`BOUNDS`; those of settings are here. Somebody allocates,
counts to or waits for each of these: splits, partitions, buffers, times. A number that sizes
nothing (a row limit, a seed) has no bound but its 64 bits: that is `ANY`.
What means nothing (zero splits, a negative wait) is refused where it is known what it is for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from math import inf, isfinite

from fabric.errors import PlanError
from fabric.plan.node import Node

ANY = inf
"""The bound of a number that allocates nothing: a seed, a place in time, rows to stop after."""
SPLITS_MAX = 10_000
"""Of one stream: each is a name, a position in every checkpoint, and a cursor in some task."""
PARTITIONS_MAX = 1 << 15
DATASET_PARTITIONS_MAX = 4_096
REPLICAS_MAX = 128
BUFFER_BATCHES_MAX = 1 << 20
BUFFER_BYTES_MAX = 1 << 36
STATE_BYTES_MAX = 1 << 50
KEYS_MAX = 1 << 32
ROWS_PER_S_MAX = 10**12
LATENCY_US_MAX = 60_000_000
"""A minute: for more there are windows."""
WAIT_S_MAX = 366 * 86_400.0
"""A year, with room for February."""
SPEED_MAX = 1e9
FILE_BYTES_MAX = 1 << 50
TEXT_CHARS_MAX = 4_096
"""Of a name, a path, an address."""
SCHEMA_CHARS_MAX = 1 << 20
"""Of a schema in its format's own language."""

BOUNDS: dict[str, float] = {
    "NodeConfig.parallelism": PARTITIONS_MAX,
    "NodeConfig.buffer_batches": BUFFER_BATCHES_MAX,
    "NodeConfig.latency_us": LATENCY_US_MAX,
    "NodeConfig.state_memory": STATE_BYTES_MAX,
}
"""Of settings, by ``Class.field``; `check.py` goes by these. Windows and triggers check theirs at
birth (`event_windows.py`)."""
_HOLDS = ("source", "target", "states", "value", "key_format")
"""Fields of a node, or of its source or target, that hold such a class or several."""


def check_bounds(node: Node) -> None:
    """Raise `PlanError` for a number or text of a node, or of where it reads or writes, too large.

    >>> import pyarrow as pa
    >>> from fabric.plan.nodes import Sink, StageInput
    >>> from fabric.plan.targets import DatasetTarget
    >>> check_bounds(Sink(StageInput(0, pa.schema([])), DatasetTarget("d", n_partitions=1 << 31)))
    Traceback (most recent call last):
    fabric.errors.PlanError: n_partitions is at most 4096, got 2147483648
    """
    _check(node)
    for part in _held(node):
        _check(part)
        for name in getattr(part, "__dataclass_fields__", ()):
            if isinstance(value := getattr(part, name), str):
                _check_text(name, value)


def _held(node: object) -> Iterator[object]:
    for name in _HOLDS:
        value = getattr(node, name, ())
        for part in value if isinstance(value, tuple) else (value,):
            if is_dataclass(part):
                yield part
                yield from _held(part)


def _check(part: object) -> None:
    bounds: Mapping[str, float] = getattr(part, "BOUNDS", {})  # what a node or place says itself
    for name, most in bounds.items():
        value = getattr(part, name)
        if isinstance(value, float) and not isfinite(value):
            raise PlanError(f"{name} must be a number of at most {most:.0f}, got {value}")
        if value is not None and value > most:
            raise PlanError(f"{name} is at most {most:.0f}, got {value}")


def _check_text(name: str, value: str) -> None:
    most = SCHEMA_CHARS_MAX if name == "schema_text" else TEXT_CHARS_MAX
    if len(value) > most:
        raise PlanError(f"{name} has at most {most} characters, got {len(value)}: {value[:40]!r}…")
