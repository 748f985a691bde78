"""The rows that a reader saw, and how late they were.

One job: `answer_of`. Rows behind the warm-up are told apart by their numbers, so that every engine
is asked about the very same ones; each must have come once, and a key's rows counted one by one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.harness import Answer, BenchError

RATE, N_KEYS = 10_000, 1_000
WARM_S, SPARE_S = 1.0, 2.0
"""Before and behind the rows that are measured."""
COLUMNS = ("split", "row", "key", "ts", "n")
Ints = NDArray[np.int64]


def n_rows_of(seconds: float) -> int:
    """How many rows a job makes of which those of `seconds` are measured."""
    return int(RATE * (WARM_S + seconds + SPARE_S))


def answer_of(
    seen: Mapping[str, Ints], n_splits: int, seconds: float, extra: Mapping[str, object]
) -> Answer:
    """Percentiles of rows with `COLUMNS` and `seen`, the time (µs) at which each was seen."""
    from fabric.clients.demo.checksum import checksum

    _check_next(seen, "key", "n")  # from the first that was seen
    begin = int(RATE * WARM_S) // n_splits
    end = begin + int(RATE * seconds) // n_splits
    measured = (seen["row"] >= begin) & (seen["row"] < end)
    found = {name: values[measured] for name, values in seen.items()}
    _check_next(found, "split", "row")
    if len(found["row"]) != n_splits * (end - begin):
        raise BenchError(f"{len(found['row'])} of {n_splits * (end - begin)} rows were measured")
    late_ms = (found["seen"] - found["ts"]) / 1e3
    told = {f"p{p}_ms": round(float(np.percentile(late_ms, p)), 3) for p in (50, 99)}
    told["max_ms"] = round(float(late_ms.max()), 3)
    rows = pa.table({name: found[name] for name in ("split", "row", "key")})
    return Answer(len(late_ms), checksum(rows)[1], {**told, **extra})


def _check_next(found: Mapping[str, Ints], part: str, number: str) -> None:
    """Raise unless the numbers of each part go up one by one."""
    order = np.lexsort((found[number], found[part]))
    same = np.diff(found[part][order]) == 0
    if np.any(np.diff(found[number][order])[same] != 1):
        raise BenchError(f"rows of a {part} are missing or came twice")
