"""A stream with much state goes on with another number of tasks: how long no rows flow.

    generator (each key once) ──┐
                                ├──hash by key──► windows that stay open ──► files, when it ends
    generator (1 % of the keys ─┘                 (count, sum, a value of 100 bytes each)
     between two checkpoints)

Two agents of two slots hold 1 GB of keyed state (`--quick`: 100 MB). Once the state is filled, the
stream goes from 2 tasks to 4 and back, ten times, each at another moment between two checkpoints.
At the end all windows close: keys, counts and sums must be those that numpy makes of the same rows;
checksums of engines are of the keys and the lengths of their values. A pause begins with the end of
the last batch that the old tasks worked on, and ends with the first rows in the last of the new:

seconds          the median pause; p95_s, max_s, with few pauses: interpolated
stop_s           medians: until the old tasks have left; restore_s: from then until rows flow
replay_s         from then until the stream is where it was; replayed_rows: what was read again.
                 The generator reads at the same pace again, so that is the time since the
                 checkpoint; with_replay_p95_s: with that
state_mb         what a checkpoint holds once the state is filled

The peer is Flink with RocksDB in files, two task managers of two slots in one virtual machine
(`rescaling/Rescale.java`): the same rows at the same pace, and the same state of a key in a
function. It stops with a savepoint in its native format, and the job is submitted again from there
with the other number of tasks. Each engine does all of its work in one call, so that none disturbs
others.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.harness import Answer, BenchError, Benchmark, Case, Engine
from bench.rescaling.pauses import (
    FEW_TASKS,
    FILL_S,
    MANY_TASKS,
    N_SPLITS,
    NO_ROW,
    PATIENCE_S,
    SEED,
    VALUE_BYTES,
    Expected,
    Ints,
    Pause,
    Ticks,
)

if TYPE_CHECKING:
    import pyarrow as pa

    import fabric
    from bench.rescaling.flink_engine import FlinkStream
    from fabric.control import control_pb2 as pb

N_AGENTS, N_SLOTS, CHURN = 2, 2, 0.01
STATE_BYTES, QUICK_STATE_BYTES = 1_000_000_000, 100_000_000
INTERVAL_S, QUICK_INTERVAL_S = 10.0, 5.0
N_MEASURED, QUICK_MEASURED = 10, 3
START = datetime(2026, 1, 1, tzinfo=UTC)
DRAIN_S = 600.0


def cases(quick: bool) -> list[Case]:
    """One, whose name says how much state."""
    n_bytes = QUICK_STATE_BYTES if quick else STATE_BYTES
    n_keys, interval_s = n_bytes // VALUE_BYTES, QUICK_INTERVAL_S if quick else INTERVAL_S
    parameters = {
        "interval_s": interval_s,
        "measured": QUICK_MEASURED if quick else N_MEASURED,
        "rows_per_s": int(CHURN * n_keys / interval_s),
    }
    return [Case(f"{n_bytes // 10**6} MB, {CHURN:.0%} churn", n_keys, n_bytes, parameters)]


def engines(case: Case) -> list[Engine]:
    """Ours, and Flink."""
    return [Engine(None, "bench.rescale:run"), Engine("flink", "bench.rescale:flink_run")]


def run(case: Case) -> RescaleRun:
    """A fabric of two agents."""
    return RescaleRun(case, FabricStream)


def flink_run(case: Case) -> RescaleRun:
    """A mini cluster of two task managers."""
    from bench.rescaling.flink_engine import FlinkStream

    return RescaleRun(case, FlinkStream)


class RescaleRun:
    """The first call of `work` does everything, others nothing."""

    def __init__(self, case: Case, stream: type[FabricStream | FlinkStream]) -> None:
        self._case, self._stream = case, stream
        self._pauses: list[Pause] = []
        self._extra: dict[str, Any] = {}
        self._found: dict[str, Ints] = {}

    def work(self) -> None:
        """Fill, rescale as often as is asked, and end it."""
        if self._pauses:
            return
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="fabric-bench-rescale-")))
            ticks = Ticks(folder / "ticks")
            begun = time.monotonic()
            stream = self._stream(self._case, folder, stack)
            self._extra["fill_s"] = round(time.monotonic() - begun, 1)
            self._extra |= stream.facts()
            measured, interval_s = (self._case.parameters[n] for n in ("measured", "interval_s"))
            for i in range(measured):
                n_tasks = MANY_TASKS if i % 2 == 0 else FEW_TASKS
                stream.settle(interval_s * (i + 0.5) / measured)
                self._pauses.append(_rescaled(stream, ticks, n_tasks))
            self._found = stream.end()
            expected = Expected(self._case.rows)
            expected.check(self._found, ticks.positions())

    def taken_s(self) -> float:
        """The median pause."""
        return statistics.median(pause.pause_s for pause in self._pauses)

    def answer(self) -> Answer:
        """Keys and the lengths of their values, and what the pauses were made of."""
        import pyarrow as pa

        from fabric.clients.demo.checksum import checksum

        seconds = [pause.pause_s for pause in self._pauses]
        with_replay = [pause.pause_s + pause.replay_s for pause in self._pauses]
        extra = {
            "p50_s": round(statistics.median(seconds), 3),
            "p95_s": round(float(np.percentile(seconds, 95)), 3),
            "max_s": round(max(seconds), 3),
            "with_replay_p95_s": round(float(np.percentile(with_replay, 95)), 3),
            "pauses": len(seconds),
            **{
                name: round(statistics.median(getattr(each, name) for each in self._pauses), 3)
                for name in ("stop_s", "restore_s", "replay_s")
            },
            "replayed_rows": int(statistics.median(pause.replayed for pause in self._pauses)),
            **{name: self._case.parameters[name] for name in ("interval_s", "rows_per_s")},
            **self._extra,
        }
        table = pa.table({name: self._found[name] for name in ("k", "size")})
        return Answer(table.num_rows, checksum(table)[1], extra)

    def close(self) -> None:
        """Everything was given back by `work`."""


def _rescaled(stream: FabricStream | FlinkStream, ticks: Ticks, n_tasks: int) -> Pause:
    asked_us = time.time_ns() // 1000
    left_us = stream.rescale(n_tasks)
    stream.until(lambda: ticks.pause(asked_us, left_us, n_tasks) is not None, "rows")
    pause = ticks.pause(asked_us, left_us, n_tasks)
    assert pause is not None
    return pause


class FabricStream:
    """The stream on two agents."""

    def __init__(self, case: Case, folder: Path, stack: ExitStack) -> None:
        import fabric
        from tests.support.local import local_fabric

        enter, self._out = stack.enter_context, folder / "out"
        environ = {
            "FABRIC_CHECKPOINT_FOLDER": str(folder / "checkpoints"),
            "FABRIC_COORDINATOR_TIMEOUT_S": "60",  # filling keeps agents busy
        }
        local = enter(local_fabric(N_AGENTS, slots=N_SLOTS, environ=environ))
        session = enter(fabric.connect(f"fabric://{local.address}", token=local.token))
        session.checkpoints(interval_s=case.parameters["interval_s"], state="arrow")
        plan = _windows(session, case, str(folder / "ticks"))
        self._job = enter(plan.write_stream(self._out, parallelism=FEW_TASKS))
        self._ticks = Ticks(folder / "ticks")
        self.until(lambda: self._ticks.n_rows() >= case.rows, "rows that fill", FILL_S)
        self.settle(0.0)

    def settle(self, beyond_s: float) -> None:
        """Wait for a checkpoint that begins from now on, and this long."""
        now = time.time()
        self.until(lambda: any(c.begun_s > now for c in self._complete()), "checkpoint")
        time.sleep(beyond_s)

    def rescale(self, n_tasks: int) -> int:
        """Have it; gives the moment (microseconds) at which no old task was left."""
        self._job.rescale(n_tasks, timeout_s=PATIENCE_S)
        return int(1e6 * [e for e in self._job.events() if e.kind == "job rescaled"][-1].wall_s)

    def facts(self) -> dict[str, Any]:
        """What the line says beside the pauses."""
        newest = self._complete()[-1]
        return {"state_mb": round(newest.bytes / 1e6), "checkpoint_s": round(newest.seconds, 2)}

    def end(self) -> dict[str, Ints]:
        """Close all windows, and give what they hold."""
        import pyarrow.parquet as pq

        self._job.stop(drain=True, timeout_s=DRAIN_S)
        table = pq.read_table(self._out, columns=["k", "n", "s", "size"])
        return {name: table[name].to_numpy().astype(np.int64) for name in table.column_names}

    def until(self, reached: Callable[[], bool], what: str, limit_s: float = PATIENCE_S) -> None:
        """Wait; raises when the job ends or the time is over."""
        end_s = time.monotonic() + limit_s
        while not reached():
            if self._job.state != "running" or time.monotonic() > end_s:
                raise BenchError(f"no {what} within {limit_s:.0f} s: {self._job.error}")
            time.sleep(0.1)

    def _complete(self) -> list[pb.CheckpointStatus]:
        return [c for c in self._job.checkpoints() if c.state in ("complete", "published")]


def _windows(session: fabric.Session, case: Case, ticks: str) -> fabric.DataFrame:
    """An open window of each key; rows of the first source have splits that the other has not."""
    from fabric import arrow_udf, col, count, streams

    fill = streams.generator(n_rows=case.rows, n_splits=N_SPLITS, start=START, session=session)
    flow = streams.generator(
        rows_per_s=case.parameters["rows_per_s"], n_keys=case.rows, n_splits=N_SPLITS, seed=SEED,
        start=START, session=session,
    )  # fmt: skip
    number = col("row") * N_SPLITS + col("split")
    of_fill = fill.with_watermark("ts", "1 hour").select(
        "ts", "row", split=(col("split") + N_SPLITS).cast("int64"), k=number, x=number
    )
    of_flow = flow.with_watermark("ts", "1 hour").select(
        "ts", "row", split=col("split").cast("int64"), k=col("key"), x=number
    )
    valued = arrow_udf(_valued(ticks), returns="binary")
    keyed = of_fill.union(of_flow).exchange("k", mode="pipelined")
    rows = keyed.select("ts", "k", "x", v=valued("split", "row"))
    made = rows.group_by("k").window("3650 days")
    totals = made.agg(n=count(), s=col("x").sum(), v=col("v").last())
    size = arrow_udf(_size(), returns="int64")
    return totals.select("k", "n", "s", size=size("v"))


def _valued(folder: str) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Gives each row a value that can't be compressed, and notes which rows there were."""
    length, n_splits, no_row = VALUE_BYTES, N_SPLITS, NO_ROW
    own: dict[str, Any] = {}

    def valued(split: pa.Array, row: pa.Array) -> pa.Array:
        import os
        import struct
        import time

        import numpy as np
        import pyarrow as pa

        began_ns, n = time.time_ns(), len(row)
        if not own:
            name = f"{folder}/{os.getpid()}-{began_ns}.ticks"
            own["out"] = open(name, "ab", buffering=0)  # noqa: SIM115
            own["rng"] = np.random.default_rng()
        data = own["rng"].bytes(n * length)
        offsets = np.arange(n + 1, dtype=np.int32) * length
        splits, rows = np.asarray(split), np.asarray(row)
        some = [rows[splits == i] for i in range(n_splits)]
        first = [int(r.min()) if len(r) else no_row for r in some]
        last = [int(r.max()) if len(r) else -1 for r in some]
        if n:
            tick = began_ns // 1000, time.time_ns() // 1000, n, *first, *last
            own["out"].write(struct.pack(f"<{len(tick)}q", *tick))
        return pa.Array.from_buffers(pa.binary(), n, [None, *map(pa.py_buffer, (offsets, data))])

    return valued


def _size() -> Callable[[pa.Array], pa.Array]:
    """The length of each value."""

    def size(values: pa.Array) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        return pc.fill_null(pc.binary_length(values).cast(pa.int64()), 0)

    return size


BENCHMARK = Benchmark(
    name="rescale",
    about="the pause of a stream with much state that goes on with another number of tasks",
    cases=cases,
    engines=engines,
    rounds=1,
    quick_rounds=1,
    round_s=0.001,
    timeout_s=3600.0,
)
