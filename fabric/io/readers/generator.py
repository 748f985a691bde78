"""Rows out of nothing: (split, row, key, value, ts).

One job: the cursor of a `GeneratorStream`. Every value is a function of (seed, split, row), so a
restored split gives the very same rows, and an oracle can make any of them again (`rows`). The
mixing is SplitMix64's: Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, 2014.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.clock import Clock
from fabric.errors import ConfigError
from fabric.io.readers.protocol import Later, SplitsOf, numbered
from fabric.io.readers.reader import MadeCursor, Pace, StreamReader, selected, whole
from fabric.plan.sources import GeneratorStream, Split

SCHEMA = pa.schema(
    [
        ("split", pa.int32()),
        ("row", pa.int64()),
        ("key", pa.int64()),
        ("value", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
    ]
)
_STEP_UNPACED_US = 1_000
_SECOND_US = 1_000_000
_BATCH_ROWS = 65_536
_KEYS_MAX = 1 << 32


def check(source: GeneratorStream) -> None:
    """Raise `ConfigError` for numbers that mean nothing."""
    for name in ("rows_per_s", "n_rows", "disorder_us"):
        if getattr(source, name) < 0:
            raise ConfigError(f"{name} of a generator can't be negative: {getattr(source, name)}")
    if source.n_splits < 1:
        raise ConfigError(f"n_splits of a generator must be positive, got {source.n_splits}")
    if not 1 <= source.n_keys <= _KEYS_MAX:
        raise ConfigError(f"n_keys of a generator is 1 to {_KEYS_MAX}, got {source.n_keys}")


def stream_schema(source: GeneratorStream) -> pa.Schema:
    """The same columns for all."""
    return SCHEMA


def enumerate_splits(source: GeneratorStream, splits_of: SplitsOf) -> list[Split]:
    """As many splits as `source.n_splits` says."""
    check(source)
    return numbered(source.n_splits)


def open_reader(
    source: GeneratorStream, schema: pa.Schema, clock: Clock, *_: object
) -> StreamReader:
    """A reader with one cursor per split."""
    return StreamReader(
        "generator", lambda split: GeneratorCursor(source, schema, split, clock), clock
    )


def n_rows_of(total: int, index: int, n_splits: int) -> int:
    """How many of rows 0, 1, ... `total` are those of split `index`, taken in turn."""
    return max(0, (total - index + n_splits - 1) // n_splits)


def rows(source: GeneratorStream, index: int, begin: int, end: int, start_us: int) -> pa.Table:
    """Rows `begin` to `end` of split `index`, where event time begins at `start_us`.

    >>> rows(GeneratorStream(n_keys=10, n_splits=1), 0, 0, 2, 0)["ts"].cast(pa.int64()).to_pylist()
    [0, 1000]
    """
    row = np.arange(begin, end, dtype=np.int64)
    first = mixed(row.view(np.uint64), _stream(source.seed, index))
    second = mixed(first, 1)
    at_us = _times(source, row * source.n_splits + index, start_us)
    if source.disorder_us:
        at_us -= _below(mixed(first, 2), source.disorder_us + 1)
    columns = [
        pa.repeat(pa.scalar(index, pa.int32()), end - begin),
        pa.array(row),
        pa.array(_below(second, source.n_keys)),
        pa.array((first >> np.uint64(1)).view(np.int64)),
        pa.array(at_us).view(SCHEMA.field("ts").type),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def mixed(numbers: NDArray[np.uint64], stream: int) -> NDArray[np.uint64]:
    """64 bits for each number, another sequence for each `stream`."""
    z = (numbers + np.uint64(stream)) * np.uint64(0x9E3779B97F4A7C15)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


class GeneratorCursor(MadeCursor):
    """One split; see `Cursor`."""

    def __init__(self, source: GeneratorStream, schema: pa.Schema, split: Split, clock: Clock):
        self._source, self._names, self._clock = source, schema.names, clock
        self._index = int(split.uri.partition("-")[0])
        n = source.n_splits
        end = n_rows_of(source.n_rows, self._index, n) if source.n_rows else None
        pace = Pace(source.rows_per_s, self._index, n, clock) if source.rows_per_s else None
        super().__init__(end, _BATCH_ROWS, pace)
        self._start_us = source.start_us

    def read(self, rows_max: int) -> pa.RecordBatch | Later | None:
        """See `Cursor.read`."""
        self._begun_us()
        return super().read(rows_max)

    def position(self) -> dict[str, Any]:
        """The next row, and when event time began."""
        return {**super().position(), "start_us": self._begun_us()}

    def seek(self, position: dict[str, Any]) -> None:
        """See `Cursor.seek`."""
        super().seek(position)
        self._start_us = whole(position, "start_us")

    def _made(self, begin: int, end: int) -> pa.RecordBatch:
        table = rows(self._source, self._index, begin, end, self._begun_us())
        return selected(table.to_batches()[0], self._names)

    def _begun_us(self) -> int:
        if not self._start_us:
            self._start_us = int(self._clock.wall_s() * _SECOND_US)
        return self._start_us


def _times(source: GeneratorStream, number: NDArray[np.int64], start_us: int) -> NDArray[np.int64]:
    """Event times of the rows with these numbers over all splits; exact, without overflow."""
    rate = source.rows_per_s
    if not rate:
        return start_us + number * _STEP_UNPACED_US
    return start_us + number // rate * _SECOND_US + number % rate * _SECOND_US // rate


def _stream(seed: int, index: int) -> int:
    """Splits far apart: the mixed words of two of them have nothing to do with each other."""
    word = np.array([seed & (2**64 - 1)], dtype=np.uint64)
    return int(mixed(mixed(word, 1), index)[0])


def _below(words: NDArray[np.uint64], n: int) -> NDArray[np.int64]:
    """Words as numbers below `n` (at most 2^32)."""
    return (((words >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32)).view(np.int64)
