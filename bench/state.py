"""Groups with less memory than they need: they go down to files, and come back.

The events and windows of `bench windows` with a million keys, embedded, one task, into nowhere. In
memory the groups take about five times `state_memory`. Groups of windows come back as these end;
those of `global`, the one window of all rows, with the next row of their key. `seconds` is for all
events, with the start of the job. The peer `memory` is Fabric with all groups in memory; Flink has
them in RocksDB; DuckDB is a batch engine with all rows at once, and the oracle.

rss_mb        memory of the process at its highest while the job ran, without mapped files
written_mb    what was written to files, merges included
evicted_m     million groups that went down, back_m: that were read back
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from bench.harness import Answer, BenchError, Benchmark, Case, Engine
from bench.windows import flink
from bench.windows.data import Asked
from bench.windows.runs import answer_of, framed

N_ROWS, N_ROWS_QUICK, N_KEYS = 20_000_000, 8_000_000, 1_000_000
GLOBAL = 4_000_000, 1_000_000
"""Rows and keys: each batch reads the groups of its keys, so this is far slower."""
BYTES_A_ROW = 24
STATE_MEMORY = {
    "tumbling": "23 MB", "sliding": "48 MB", "cumulative": "48 MB", "global": "23 MB",
}  # fmt: skip
_LOOK_S = 0.02


def cases(quick: bool) -> Sequence[Case]:
    """A kind of window each."""
    kinds = ["tumbling", "global"] if quick else list(STATE_MEMORY)
    sizes = dict.fromkeys(kinds, (N_ROWS_QUICK if quick else N_ROWS, N_KEYS)) | {"global": GLOBAL}
    return [
        Case(kind, rows, rows * BYTES_A_ROW, {"kind": kind, "keys": n_keys, "rows": rows})
        for kind, (rows, n_keys) in sizes.items()
    ]


def engines(case: Case) -> Sequence[Engine]:
    """Files below memory, memory alone, and the oracle."""
    found = [
        Engine(None, "bench.state:arrow_run"),
        Engine("memory", "bench.state:memory_run"),
        Engine("duckdb", "bench.windows.peers:duckdb_run"),
    ]
    if case.parameters["kind"] in flink.KINDS:
        found.append(Engine("flink", "bench.windows.flink:run"))
    return found


def arrow_run(case: Case) -> StateRun:
    """With files."""
    return StateRun(case, "arrow")


def memory_run(case: Case) -> StateRun:
    """Without."""
    return StateRun(case, "memory")


class StateRun:
    """A session whose jobs keep their state in `state`."""

    def __init__(self, case: Case, state: str) -> None:
        import fabric

        os.environ["FABRIC_CHECKPOINT_INTERVAL_S"] = "1"
        self._stack, self._state = ExitStack(), state
        self._session = self._stack.enter_context(fabric.connect())
        memory = STATE_MEMORY[case.parameters["kind"]]
        self._session.checkpoints(state=state, state_memory=memory)  # type: ignore[arg-type]
        self._frame = framed(self._session, Asked.of(case))

    def work(self) -> object:
        """All rows once, to nowhere."""
        return self._run()

    def answer(self) -> Answer:
        """Rows and checksum, and what one job takes."""
        extra = self._run()
        with self._session.submit(self._frame) as job:
            return answer_of(job.collect(), extra)

    def close(self) -> None:
        """End the session."""
        self._stack.close()

    def _run(self) -> dict[str, Any]:
        import fabric

        with (
            Highest() as highest,
            self._frame.write_stream(fabric.streams.to_blackhole()) as job,
        ):
            job.wait()
            counts = {c.name: c.n for stage in job.status.stages for c in stage.counts}
        extra: dict[str, Any] = {"rss_mb": round(highest.anonymous / 1e6)}
        if self._state == "arrow":
            if not counts.get("state_evicted_rows"):
                raise BenchError(f"all groups fit into memory: {counts}")
            extra["written_mb"] = round(counts["state_written_bytes"] / 1e6)
            extra["evicted_m"] = round(counts["state_evicted_rows"] / 1e6, 1)
            extra["back_m"] = round(counts.get("state_read_back_rows", 0) / 1e6, 1)
        return extra


class Highest:
    """How much memory this process takes at most inside a ``with``; `anonymous` in bytes."""

    def __init__(self) -> None:
        self.anonymous = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Highest:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while not self._over.wait(_LOOK_S):
            with open("/proc/self/statm") as file:
                _, resident, shared, *_ = file.read().split()
            self.anonymous = max(self.anonymous, (int(resident) - int(shared)) * page)


BENCHMARK = Benchmark(
    name="state",
    about="groups that take five times the memory they may have",
    cases=cases,
    engines=engines,
    rounds=3,
    quick_rounds=1,
    round_s=0.5,
)
