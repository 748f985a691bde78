"""Both sides of a join as files, and what is asked of them.

One job: rows of a key, a value and a time, drawn by a seed a side and file, as Arrow IPC for Fabric
and as Parquet for the others. File i of n holds rows i, i + n, … so that all run through event time
side by side. Times are whole milliseconds, which is as fine as Flink's are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.harness import Answer, Case
from bench.made import made, write_both

SIDES = {"a": ("k", "v", "at"), "b": ("j", "w", "bt")}
"""Key, value and time of each."""
ROWS_A_MS = 1_000
"""Of a side."""
START_ROWS = 1_000
"""So few that a job over them takes no more than it takes to start and to end."""
COLUMNS = ("k", "v", "at", "w", "bt")
"""Of the result."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a case says; `rows` of each side."""

    rows: int
    keys: int
    apart_ms: int
    how: str
    cores: int

    @classmethod
    def of(cls, case: Case) -> Asked:
        """All of its parameters."""
        return cls(**case.parameters)

    def few(self) -> Asked:
        """The same of next to no rows."""
        return Asked(START_ROWS, self.keys, self.apart_ms, self.how, self.cores)


def paths(asked: Asked, side: str, ending: str) -> list[str]:
    """The files of a side, ``arrow`` or ``parquet``; made when they are not there."""
    name = f"{asked.rows}-of-{asked.keys}-in-{asked.cores}"
    folder = made("joins", name, lambda at: write(at, asked))
    return sorted(map(str, (folder / side).glob(f"*.{ending}")))


def write(at: Path, asked: Asked) -> None:
    """Files ``a/0.arrow`` and ``a/0.parquet``, and so on."""
    for seed, (side, names) in enumerate(SIDES.items()):
        (at / side).mkdir()
        for index in range(asked.cores):
            numbers = np.arange(index, asked.rows, asked.cores)
            rng = np.random.default_rng([seed, index])
            keys = rng.integers(0, asked.keys, len(numbers))
            times = pa.array(numbers // ROWS_A_MS * 1_000).cast(pa.timestamp("us"))
            rows = pa.table([pa.array(keys), pa.array(numbers), times], names=list(names))
            write_both(at / side / f"{index}.arrow", rows)


def answer_of(batches: Iterable[pa.RecordBatch], **extra: Any) -> Answer:
    """Rows and checksum of all pairs."""
    from fabric.clients.demo.checksum import checksum

    n_rows = digits = 0
    for batch in batches:
        n, found = checksum(batch.select(list(COLUMNS)))
        n_rows, digits = n_rows + n, digits + int(found, 16)
    return Answer(n_rows, f"{digits % (1 << 64):016x}", extra)


def m_rows_a_core(case: Case, cpu_s: float) -> float:
    """Million rows a second of processor time; 0 where no job was measured."""
    return round(case.rows / cpu_s / 1e6, 2) if cpu_s else 0.0
