"""Groups with less memory than they need: they go down to files, and come back.

The events and windows of `bench windows` with a million keys, embedded, one task, into nowhere. In
memory the groups take about five times `state_memory`. Groups of windows come back as these end;
those of `global`, the one window of all rows, with the next row of their key. `seconds` is for all
events, with the start of the job. Cases that are `small` have an eighth of the rows, keys and
memory over the same time: what slow engines can do. `store` cases are the stores without operators
around them, see `bench/stores.py`.

Ours is `arrow`. Its peers: `memory`, Fabric with all groups in memory; `tonbo`, Fabric with Tonbo
in the place of files; `rocksdb`, the same windows as a `.process` function whose state lies in
RocksDB, a lookup a batch and key; Flink has its own RocksDB; DuckDB is a batch engine with all rows
at once, and the oracle. Tonbo, RocksDB and Flink do small cases alone: others take them minutes.

rss_mb        memory of the process at its highest while the job ran, without mapped files
written_mb    what the process wrote, merges and checkpoints included
evicted_m     million groups that went down, back_m: that were read back
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from bench import stores
from bench.harness import Answer, BenchError, Benchmark, Case, Engine
from bench.windows import flink
from bench.windows.data import SIZE_S, TIME, Asked
from bench.windows.runs import answer_of, framed, watermarked

if TYPE_CHECKING:
    import fabric
    from fabric.clients.session.session import Session
    from fabric.config import StateBackend

N_ROWS, N_ROWS_QUICK, N_KEYS = 20_000_000, 8_000_000, 1_000_000
GLOBAL = 4_000_000
"""Rows: each batch reads the groups of its keys, so this is far slower."""
BYTES_A_ROW = 24
STATE_MEMORY = {
    "tumbling": 23_000_000, "sliding": 48_000_000, "cumulative": 48_000_000, "global": 23_000_000,
}  # fmt: skip
SMALL = 8
"""By how much cases with all engines are smaller than those of a quick run."""
COLD = ("arrow", "tonbo")
_LOOK_S = 0.02
_FOREVER_US = 1 << 62


def cases(quick: bool) -> Sequence[Case]:
    """A kind of window each; then those that slow engines can do; then stores."""
    kinds = ["tumbling", "global"] if quick else list(STATE_MEMORY)
    rows = dict.fromkeys(kinds, N_ROWS_QUICK if quick else N_ROWS) | {"global": GLOBAL}
    whole = [_case(kind, rows[kind], _peers(kind)) for kind in kinds]
    few = {"tumbling": N_ROWS_QUICK, "global": GLOBAL}
    small = [_case(kind, n, _peers(kind, small=True), SMALL) for kind, n in few.items()]
    return [*whole, *small, *stores.cases(quick)]


def _case(kind: str, rows: int, peers: Sequence[str], smaller: int = 1) -> Case:
    name, rows = f"{kind} small" if smaller > 1 else kind, rows // smaller
    parameters = {
        "kind": kind, "keys": N_KEYS // smaller, "rows": rows, "pace_us": smaller,
        "state_memory": STATE_MEMORY[kind] // smaller, "peers": peers,
    }  # fmt: skip
    return Case(name, rows, rows * BYTES_A_ROW, parameters)


def _peers(kind: str, *, small: bool = False) -> list[str]:
    """Who can do it in a minute."""
    able = {
        "memory": True, "tonbo": small, "rocksdb": small, "duckdb": True,
        "flink": small and kind in flink.KINDS,
    }  # fmt: skip
    return [peer for peer, is_able in able.items() if is_able]


def engines(case: Case) -> Sequence[Engine]:
    """Files below memory; then its peers."""
    if "peers" not in case.parameters:
        return stores.engines(case)
    factories = {"duckdb": "bench.windows.peers:duckdb_run", "flink": "bench.windows.flink:run"}
    peers = case.parameters["peers"]
    return [
        Engine(None, "bench.state:arrow_run"),
        *(Engine(peer, factories.get(peer, f"bench.state:{peer}_run")) for peer in peers),
    ]


def arrow_run(case: Case) -> StateRun:
    """With files."""
    return StateRun(case, "arrow")


def memory_run(case: Case) -> StateRun:
    """Without."""
    return StateRun(case, "memory")


def tonbo_run(case: Case) -> StateRun:
    """With Tonbo stores."""
    return StateRun(case, "tonbo")


def rocksdb_run(case: Case) -> StateRun:
    """As a function."""
    return StateRun(case, "rocksdb")


class StateRun:
    """A session whose jobs keep their state in `state`."""

    def __init__(self, case: Case, state: StateBackend) -> None:
        import fabric

        os.environ["FABRIC_CHECKPOINT_INTERVAL_S"] = "1"
        self._stack, self._state = ExitStack(), state
        self._session = self._stack.enter_context(fabric.connect())
        memory = case.parameters["state_memory"]
        self._session.checkpoints(state=state, state_memory=memory)
        asked = Asked.of(case)
        made = processed if state == "rocksdb" else framed
        self._frame = made(self._session, asked)
        self._extra: dict[str, Any] = {}

    def work(self) -> object:
        """All rows once, to nowhere."""
        import fabric

        before = _written_bytes()
        with (
            Highest() as highest,
            self._frame.write_stream(fabric.streams.to_blackhole()) as job,
        ):
            job.wait()
            counts = {c.name: c.n for stage in job.status.stages for c in stage.counts}
        written = _written_bytes() - before
        self._extra = {
            "rss_mb": round(highest.anonymous / 1e6), "written_mb": round(written / 1e6, 1),
        }  # fmt: skip
        if self._state in COLD:
            if not counts.get("state_evicted_rows"):
                raise BenchError(f"all groups fit into memory: {counts}")
            self._extra["evicted_m"] = round(counts["state_evicted_rows"] / 1e6, 1)
            self._extra["back_m"] = round(counts.get("state_read_back_rows", 0) / 1e6, 1)
        return None

    def answer(self) -> Answer:
        """Rows and checksum, and what the last job took."""
        with self._session.submit(self._frame) as job:
            return answer_of(job.collect(), self._extra)

    def close(self) -> None:
        """End the session."""
        self._stack.close()


def processed(session: Session, asked: Asked) -> fabric.DataFrame:
    """The windows as a function of rows and timers; those of ``tumbling`` and ``global``."""
    import pyarrow as pa

    from fabric import streams

    size_us = {"tumbling": SIZE_S * 1_000_000, "global": _FOREVER_US}[asked.kind]
    totals = pa.struct({"n": pa.int64(), "s": pa.int64()})
    found = watermarked(session, asked).process(
        _windows(size_us), keys="k", timers="event",
        schema={"k": "int64", "window_start": TIME, "window_end": TIME, "n": "int64", "s": "int64"},
        state={"totals": streams.map_state("int64", totals)},
    )  # fmt: skip
    return found if asked.kind == "tumbling" else found.select("k", "n", "s")


def _windows(size_us: int) -> fabric.Process:
    """Counts and sums by key and end of the window, in state until a timer at that end."""
    import pyarrow as pa
    import pyarrow.compute as pc

    import fabric

    time_type = TIME

    class Windows(fabric.Process):
        def on_batch(
            self, ctx: fabric.ProcessContext, keys: pa.RecordBatch, rows: pa.RecordBatch
        ) -> None:
            times = rows["ts"].view(pa.int64()).to_numpy()
            ends = pa.array(times - times % size_us + size_us)
            events = pa.table({"k": keys["k"], "end": ends, "v": rows["v"]})
            new = events.group_by(["k", "end"]).aggregate([("v", "count"), ("v", "sum")])
            (new,) = new.combine_chunks().to_batches()
            state, ends, keys = ctx.state("totals"), new["end"], new.select(["k"])
            old = state.get_many(keys, ends)
            sums = [
                pc.add(pc.fill_null(old.field(name), 0), new[f"v_{what}"])
                for name, what in (("n", "count"), ("s", "sum"))
            ]
            state.put_many(keys, ends, pa.StructArray.from_arrays(sums, ["n", "s"]))
            ctx.timers.set_many(keys, ends)

        def on_timers(
            self, ctx: fabric.ProcessContext, keys: pa.RecordBatch, times: pa.Array, domain: str
        ) -> pa.Table:
            state = ctx.state("totals")
            found = state.get_many(keys, times)
            state.remove_many(keys, times)
            bounds = [each.view(time_type) for each in (pc.subtract(times, size_us), times)]
            return pa.table({
                "k": keys["k"], "window_start": bounds[0], "window_end": bounds[1],
                "n": found.field("n"), "s": found.field("s"),
            })  # fmt: skip

    return Windows()


def _written_bytes() -> int:
    """What this process has written by now, also what its kernel has not yet."""
    with open("/proc/self/io") as file:
        return int(dict(line.split(": ") for line in file)["wchar"])


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
    about="groups that take five times the memory they may have; stores without operators",
    cases=cases,
    engines=engines,
    rounds=3,
    quick_rounds=1,
    round_s=0.5,
    timeout_s=3600.0,
)
