"""The tables of db-benchmark at any number of rows, as Arrow IPC files.

One job: `tables`. Shapes and distributions are those of G1_1e7_1e2_0_0 and J1_1e7_NA_0_0; the
measures are multiples of 1/1024, so that sums are exact in any order and all engines can agree.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.random import Generator
from numpy.typing import NDArray

from bench.made import made, write_arrow

N_GROUPS = 100
_BATCH_ROWS = 65_536
_STEPS = 1024


@cache
def tables(kind: str, rows: int) -> dict[str, Path]:
    """The files of "groupby" (x) or "join" (x, small, medium, big), made when not there."""
    names = ("x",) if kind == "groupby" else ("x", "small", "medium", "big")

    def write(folder: Path) -> None:
        for name, table in (_groupby(rows) if kind == "groupby" else _join(rows)).items():
            write_arrow(folder / f"{name}.arrow", table)

    found = made("dbbenchmark", f"{kind}-{rows}", write)
    return {name: found / f"{name}.arrow" for name in names}


def loaded(path: Path) -> pa.Table:
    """The file's table in memory."""
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def _texts(numbers: NDArray[np.int64], digits: int) -> pa.Array:
    """``id0000000042`` of each number."""
    known, places = np.unique(numbers, return_inverse=True)
    texts = pa.array([f"id{number:0{digits}d}" for number in known], pa.string())
    return texts.take(pa.array(places))


def _measure(rng: Generator, rows: int) -> NDArray[np.float64]:
    found: NDArray[np.float64] = rng.integers(0, 100 * _STEPS, rows) / _STEPS
    return found


def _groupby(rows: int) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed=108)
    few, many = N_GROUPS, max(1, rows // N_GROUPS)
    table = {
        "id1": _texts(rng.integers(1, few + 1, rows), 3),
        "id2": _texts(rng.integers(1, few + 1, rows), 3),
        "id3": _texts(rng.integers(1, many + 1, rows), 10),
        "id4": rng.integers(1, few + 1, rows),
        "id5": rng.integers(1, few + 1, rows),
        "id6": rng.integers(1, many + 1, rows),
        "v1": rng.integers(1, 6, rows),
        "v2": rng.integers(1, 16, rows),
        "v3": _measure(rng, rows),
    }
    return {"x": pa.table(table)}


def _join(rows: int) -> dict[str, pa.Table]:
    """Nine tenths of the keys of each right side are in x, and the other way round."""
    rng = np.random.default_rng(seed=109)
    sizes = {"small": max(10, rows // 1_000_000), "medium": max(20, rows // 1_000), "big": rows}
    pools = {name: rng.permutation(int(size * 1.1) + 1) + 1 for name, size in sizes.items()}
    left = {name: pools[name][:size] for name, size in sizes.items()}
    right = {name: pools[name][-size:] for name, size in sizes.items()}
    ids = {
        "small": left["small"][rng.integers(0, sizes["small"], rows)],
        "medium": left["medium"][rng.integers(0, sizes["medium"], rows)],
        "big": rng.permutation(left["big"]),
    }
    x = pa.table({
        "id1": ids["small"], "id2": ids["medium"], "id3": ids["big"],
        "id4": _texts(ids["small"], 1), "id5": _texts(ids["medium"], 1),
        "id6": _texts(ids["big"], 1), "v1": _measure(rng, rows),
    })  # fmt: skip
    small, medium = right["small"], right["medium"]
    big = right["big"]
    of_small = small[rng.integers(0, len(small), len(medium))]
    big_small = small[rng.integers(0, len(small), rows)]
    big_medium = medium[rng.integers(0, len(medium), rows)]
    return {
        "x": x,
        "small": pa.table({"id1": small, "id4": _texts(small, 1), "v2": _measure(rng, len(small))}),
        "medium": pa.table({
            "id1": of_small, "id2": medium, "id4": _texts(of_small, 1), "id5": _texts(medium, 1),
            "v2": _measure(rng, len(medium)),
        }),
        "big": pa.table({
            "id1": big_small, "id2": big_medium, "id3": big, "id4": _texts(big_small, 1),
            "id5": _texts(big_medium, 1), "id6": _texts(big, 1), "v2": _measure(rng, rows),
        }),
    }  # fmt: skip
