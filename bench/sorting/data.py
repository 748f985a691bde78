"""The rows every engine sorts, and what is compared afterwards.

One job: files of h, k, v, w as Arrow IPC and Parquet, cut into equal parts; and `SortRun`, which
sums up the sorted rows by their places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.harness import Answer, Case
from bench.made import made, write_both

N_PARTS = 4
COLUMNS = ("h", "k", "v", "w")


def folder(rows: int) -> Path:
    """Where the files of so many rows lie; made when they are not there."""

    def write(folder: Path) -> None:
        rng = np.random.default_rng(seed=6)
        part = rows // N_PARTS
        for number in range(N_PARTS):
            _write(folder / f"part-{number}.arrow", rng, number * part, part)

    return made("sort", str(rows), write)


def _write(path: Path, rng: np.random.Generator, first: int, rows: int) -> None:
    hot = np.where(rng.random(rows) < 0.9, 500, rng.integers(0, 1000, rows))
    table = pa.table({
        "h": hot,
        "k": different(np.arange(first, first + rows, dtype=np.uint64)).view(np.int64),
        "v": rng.integers(0, 100, rows),
        "w": rng.integers(0, 4_000, rows) / 4,
    })  # fmt: skip
    write_both(path, table)


def different(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Random bits, other ones for each number: SplitMix64 loses nothing."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def parts(case: Case, ending: str) -> list[str]:
    """The files of a case, ``arrow`` or ``parquet``."""
    return sorted(str(path) for path in folder(case.rows).glob(f"*.{ending}"))


def mapped(path: str) -> pa.Table:
    """One Arrow file, mapped into memory."""
    with pa.memory_map(path) as file:
        return pa.ipc.open_file(file).read_all()


def keys(case: Case) -> list[str]:
    """What the case sorts by."""
    return ["h", "k"] if case.parameters["hot"] else ["k"]


class SortRun:
    """`sort` puts all rows in order and lets them go; `read` gives them, part after part."""

    def __init__(
        self,
        sort: Callable[[], object],
        read: Callable[[], Iterable[pa.Table | pa.RecordBatch]],
        stack: ExitStack | None = None,
    ) -> None:
        self._sort, self._read, self._stack = sort, read, stack or ExitStack()

    def work(self) -> object:
        """One sort."""
        return self._sort()

    def answer(self) -> Answer:
        """The sum of each column's values times their places, whatever the parts."""
        from fabric.clients.demo.checksum import checksum

        found, place = dict.fromkeys(COLUMNS, 0), 0
        for part in self._read():
            places = np.arange(place, place + part.num_rows, dtype=np.uint64)
            place += part.num_rows
            for name in COLUMNS:
                found[name] += _sum(part.column(name), places)
        summed = pa.table({name: [value % (1 << 63)] for name, value in found.items()})
        return Answer(place, checksum(summed)[1])

    def close(self) -> None:
        """Stop the engine."""
        self._stack.close()


def _sum(column: Any, places: NDArray[np.uint64]) -> int:
    """Exact modulo 2^64: floats here are quarters."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values = whole.to_numpy(zero_copy_only=False)
    if values.dtype == np.float64:
        values = (values * 4).astype(np.int64)
    return int((values.astype(np.int64).view(np.uint64) * places).sum(dtype=np.uint64))
