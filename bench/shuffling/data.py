"""The rows every engine shuffles, and what is compared afterwards.

One job: files of k (1 M values), v, w and perhaps s, as Arrow IPC and Parquet, cut into equal
parts; and `placed`, which sums up what lies in one partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.harness import Answer, Case
from bench.made import made, write_both

N_KEYS = 1_000_000
N_PARTS = 4
COLUMNS = ("n", "k", "v", "w", "s", "keys")
"""Of one partition: rows, sums of the columns (of the strings' lengths), different keys."""


def folder(case: Case) -> Path:
    """Where the case's files lie; made when they are not there."""
    rows, strings = case.rows, bool(case.parameters["strings"])

    def write(folder: Path) -> None:
        rng = np.random.default_rng(seed=5)
        for number in range(N_PARTS):
            _write(folder / f"part-{number}.arrow", rng, rows // N_PARTS, strings)

    return made("shuffle", f"{rows}{'-strings' if strings else ''}", write)


def _write(path: Path, rng: np.random.Generator, rows: int, strings: bool) -> None:
    keys = rng.integers(0, N_KEYS, rows)
    columns: dict[str, Any] = {
        "k": keys, "v": rng.integers(0, 100, rows), "w": rng.integers(0, 4_000, rows) / 4
    }  # fmt: skip
    if strings:
        names = pa.array([f"customer {number}" for number in range(1000)])
        columns["s"] = names.take(pa.array(keys % 1000))
    table = pa.table(columns)
    write_both(path, table)


def parts(case: Case, ending: str) -> list[str]:
    """The files of a case, ``arrow`` or ``parquet``."""
    return sorted(str(path) for path in folder(case).glob(f"*.{ending}"))


def mapped(path: str) -> pa.Table:
    """One Arrow file, mapped into memory."""
    with pa.memory_map(path) as file:
        return pa.ipc.open_file(file).read_all()


def sums(table: pa.Table) -> dict[str, float]:
    """Rows and sums of some rows: proof that all of them arrived."""
    return {
        "n": table.num_rows,
        **{name: pc.sum(table[name]).as_py() or 0 for name in ("k", "v", "w")},
        "s": pc.sum(pc.utf8_length(table["s"])).as_py() or 0 if "s" in table.column_names else 0,
    }


def placed(table: pa.Table) -> dict[str, float]:
    """`sums` of one partition, and how many different keys lie in it."""
    return {**sums(table), "keys": pc.count_distinct(table["k"]).as_py()}


def answer_of(partitions: Iterable[Mapping[str, Any]]) -> Answer:
    """The total over partitions: with every key in one only, the keys add up to all keys."""
    from fabric.clients.demo.checksum import checksum

    total = dict.fromkeys(COLUMNS, 0.0)
    for one in partitions:
        for name in COLUMNS:
            total[name] += float(one[name])
    _, digits = checksum(pa.table({name: [value] for name, value in total.items()}))
    return Answer(int(total["n"]), digits)
