"""A shuffle many times as large as the agent: 8 GB (`--quick`: 2 GB) through 512 MB.

One agent of two slots (``fabric agent --memory 512MB``) reads Arrow files, exchanges all rows by k
and sums what arrived; nearly all rows lie in its spill files in between. The files are one file
under many names, so that reading them is not what is measured. Two fields tell how it went:

peak_rss_over_budget   the largest resident memory of the agent and the processes it started,
                       summed, ÷ 512 MB
rate_over_disk         seconds to write the bytes that were spilled to the same folder and then to
                       read them back, both by the page cache as the agent does ÷ seconds of ours.
                       The two take turns: each finds the free memory that the other left
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.harness import Answer, Benchmark, Case, Engine

MEMORY, MEMORY_BYTES = "512MB", 512_000_000
FILE_ROWS = 1 << 22
N_FILES, N_FILES_QUICK = 16, 4
TEXT_CHARS = 100
ROW_BYTES = 24 + 4 + TEXT_CHARS
_PIECE = 1 << 20
_TURNS = 3


def cases(quick: bool) -> Sequence[Case]:
    """One case; its name says the bytes."""
    n_files = N_FILES_QUICK if quick else N_FILES
    rows = n_files * FILE_ROWS
    name = f"{round(rows * ROW_BYTES / 1e9)} GB through {MEMORY}"
    return [Case(name, rows, rows * ROW_BYTES, {"files": n_files})]


def engines(case: Case) -> Sequence[Engine]:
    """Ours: the disk is measured beside it."""
    return [Engine(None, "bench.spill:run")]


def run(case: Case) -> SpillRun:
    """A fabric of one agent."""
    return SpillRun(case)


class SpillRun:
    """The agent, and what it was seen to take."""

    def __init__(self, case: Case) -> None:
        import fabric
        from tests.support.local import local_fabric

        self._case, self._stack = case, ExitStack()
        enter = self._stack.enter_context
        folder = Path(enter(tempfile.TemporaryDirectory(prefix="fabric-bench-spill-")))
        self._spill = folder / "spill"
        self._spill.mkdir()
        self._expected = _write(folder, case.parameters["files"])
        options = ("--memory", MEMORY, "--spill", str(self._spill))
        local = enter(local_fabric(1, slots=2, options=options))
        self._pid = local.agents[0].process.pid
        session = enter(fabric.connect(f"fabric://{local.address}", token=local.token))
        moved = session.read_ipc(str(folder / "*.arrow")).exchange("k")
        texts = fabric.sum(fabric.col("s").str.len_chars()).alias("s")
        self._totals = moved.agg(
            fabric.count().alias("n"), fabric.sum("k"), fabric.sum("v"), fabric.sum("w"), texts
        )  # fmt: skip
        self._session = session
        self._found: Any = None

    def work(self) -> int:
        """One shuffle; its files go before the next. Returns the bytes that were spilled."""
        with self._session.submit(self._totals, parallelism=2) as job:
            self._found = job.wait(3600.0).collect()
            files = [file.stat() for file in self._spill.rglob("*") if file.is_file()]
        while any(self._spill.rglob("*.arrows")):
            time.sleep(0.01)
        return sum(file.st_size for file in files)

    def answer(self) -> Answer:
        """Right sums, the memory it took, and how it compares with the disk."""
        from fabric.clients.demo.checksum import checksum

        turns = [self._turn() for _ in range(_TURNS)]
        if self._found.to_pylist() != [self._expected]:
            raise AssertionError(f"the sums are {self._found.to_pylist()}, not {self._expected}")
        ours, disk, spilled = (statistics.median(turn) for turn in zip(*turns, strict=True))
        extra = {
            "peak_rss_over_budget": round(peak_rss(self._pid) / MEMORY_BYTES, 3),
            "rate_over_disk": round(disk / ours, 3),
            "spilled_bytes": int(spilled),
            "job_seconds": round(ours, 3),
            "disk_seconds": round(disk, 3),
        }
        return Answer(self._case.rows, checksum(self._found)[1], extra)

    def _turn(self) -> tuple[float, float, int]:
        """Seconds of ours, then of the disk, for so many bytes."""
        begun = time.perf_counter()
        spilled = self.work()
        return time.perf_counter() - begun, _disk_seconds(self._spill, spilled), spilled

    def close(self) -> None:
        """Stop the agent and remove the files."""
        self._stack.close()


def peak_rss(pid: int) -> int:
    """The largest resident memory of a process and of all below it, each at its own worst."""
    found = 0
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            found = int(line.split()[1]) * 1024
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            found += peak_rss(int(child))
    return found


def _write(folder: Path, n_files: int) -> dict[str, float]:
    """One file under `n_files` names; returns the sums of all."""
    rng = np.random.default_rng(seed=11)
    texts = pa.array([f"{number:0{TEXT_CHARS}}" for number in range(1000)])
    first = folder / "0.arrow"
    sums: dict[str, float] = {}
    with ExitStack() as stack:
        writer: Any = None
        for _ in range(16):
            n = FILE_ROWS // 16
            table = pa.table({
                "k": rng.integers(0, 1_000_000, n),
                "v": rng.integers(0, 100, n),
                "w": rng.integers(0, 4000, n) / 4,
                "s": texts.take(pa.array(rng.integers(0, 1000, n))),
            })  # fmt: skip
            writer = writer or stack.enter_context(pa.ipc.new_file(str(first), table.schema))
            writer.write_table(table, max_chunksize=1 << 16)
            for name in ("k", "v", "w"):
                sums[name] = sums.get(name, 0) + pc.sum(table[name]).as_py()
    for number in range(1, n_files):
        os.link(first, folder / f"{number}.arrow")
    return {
        "n": FILE_ROWS * n_files,
        **{name: total * n_files for name, total in sums.items()},
        "s": FILE_ROWS * n_files * TEXT_CHARS,
    }


def _disk_seconds(folder: Path, n_bytes: int) -> float:
    """Write so many bytes, then read them, a MiB at a time."""
    piece, path = os.urandom(_PIECE), folder / "beside"
    begun = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for _ in range(n_bytes // _PIECE):
            file.write(piece)
    buffer = bytearray(_PIECE)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    seconds = time.perf_counter() - begun
    path.unlink()
    return seconds


BENCHMARK = Benchmark(
    name="spill",
    about="a shuffle far larger than the agent's memory, beside its disk",
    cases=cases,
    engines=engines,
    rounds=1,
    quick_rounds=1,
    round_s=0.001,
    timeout_s=3600.0,
)
