"""The events of the benchmark: two files in order of time, each with keys of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.harness import Case
from bench.made import made, write_arrow

N_FILES = 2
SIZE_S, SLIDE_S = 4, 1
COUNT = 8
START_US = 1_700_000_000_000_000
TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Asked:
    """The numbers of a case."""

    kind: str
    rows: int
    n_keys: int
    pace_us: int = 1
    """Of event time, from one event to the next."""

    @staticmethod
    def of(case: Case) -> Asked:
        """What the case says."""
        parameters = case.parameters
        pace_us = parameters.get("pace_us", 1)
        return Asked(parameters["kind"], parameters["rows"], parameters["keys"], pace_us)

    @property
    def gap_us(self) -> int:
        """Of sessions: a key has a row every `n_keys` events in the mean."""
        return 4 * self.n_keys * self.pace_us

    @property
    def events(self) -> str:
        """A name of the events, whatever the windows."""
        return f"{self.n_keys}-{self.rows}-{self.pace_us}"


def files(asked: Asked) -> list[Path]:
    """ts, k, v; the files are made when they are not there."""
    folder = made("windows", asked.events, lambda folder: _make(folder, asked))
    return sorted(folder.glob("*.arrow"))


def _make(folder: Path, asked: Asked) -> None:
    for number in range(N_FILES):
        rng = np.random.default_rng(seed=number)
        n_rows = asked.rows // N_FILES
        keys = rng.integers(0, asked.n_keys // N_FILES, n_rows) * N_FILES + number
        times = START_US + (np.arange(n_rows) * N_FILES + number) * asked.pace_us
        table = pa.table({
            "ts": pa.array(times).view(TIME), "k": keys, "v": rng.integers(0, 1_000, n_rows),
        })  # fmt: skip
        write_arrow(folder / f"{number}.arrow", table)


def mapped(path: Path) -> pa.Table:
    """The rows of a file, mapped into memory."""
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()
