"""Checkpoints of a stream with much state: how long they take, and what the stream does meanwhile.

    generator ──hash by key──► function: reads each row's key, writes some ──► nowhere
    (as fast as it is read)    (values of 100 bytes in RocksDB)

    generator ──some rows──hash by key──► windows that stay open ──► nowhere
                                          (a value of 100 bytes each)

Two agents hold 1 GB of keyed state (`--quick`: 100 MB); of windows 10 GB in files, and 1 GB in
memory (`--quick`: 1 GB in files). Rows that fill it come first, then rows of any keys as fast as
they are read; of those the function writes as many as make 1 % of the keys between two checkpoints,
and as many go to windows. A key that is not there ends the job of the function. What is told are
the checkpoints behind the fill and the one after it (which has all of the state to write):

p50_s, p99_s     from the trigger until the manifest and its pointer are durable; max_s: the longest
new_mb           what a checkpoint added to the folder; total_mb: what it holds
dip              1 - rows/s while one was under way ÷ rows/s between them, medians
read_dip         1 - rows/s while the state of `READ_KEYS` keys, other ones each time, is read ten
                 times a second ÷ rows/s while it is not, medians; read_ms: the median of a read
poll_dip         the same while the same keys are read each time, as by a page that shows them
folder_ratio     the folder of the job ÷ (checkpoints kept x bytes of one)
restore_s        from the loss of an agent until rows flow again, restore_mb_s its state over that

`seconds` and `rate` are of a second of the stream, whatever goes on in it.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.harness import Answer, BenchError, Benchmark, Case, Engine

if TYPE_CHECKING:
    import pyarrow as pa

    import fabric
    from fabric.control import control_pb2 as pb

N_AGENTS, VALUE_BYTES, CHURN = 2, 100, 0.01
STATE_BYTES, QUICK_STATE_BYTES = 1_000_000_000, 100_000_000
WINDOWS = {"arrow": 10_000_000_000, "memory": 1_000_000_000}
QUICK_WINDOWS = {"arrow": 1_000_000_000}
INTERVAL_S, QUICK_INTERVAL_S = 10.0, 5.0
N_MEASURED, QUICK_MEASURED = 36, 4
"""Rates of windows as short as a checkpoint differ by a fifth on a shared machine: of twelve the
median's error would be as large as the dip that is allowed."""
RETAINED = 2
READ_KEYS, READ_TURNS, READ_S = 100, 12, 5.0
FILL_S, PATIENCE_S = 900.0, 120.0
_ROUND_S = 1.0
_COMPLETE = ("complete", "published")


def cases(quick: bool) -> list[Case]:
    """Their names say how much state."""
    functions = {"rocksdb": QUICK_STATE_BYTES if quick else STATE_BYTES}
    shared = {
        "interval_s": QUICK_INTERVAL_S if quick else INTERVAL_S,
        "measured": QUICK_MEASURED if quick else N_MEASURED,
    }
    return [
        Case(
            f"{n_bytes // 10**6} MB{what}, {CHURN:.0%} churn",
            n_bytes // VALUE_BYTES,
            n_bytes,
            {**shared, "state": state, "windows": bool(what)},
        )
        for sizes, said in ((functions, ""), (QUICK_WINDOWS if quick else WINDOWS, " of windows"))
        for state, n_bytes in sizes.items()
        for what in [said and f"{said} ({state})"]
    ]


def engines(case: Case) -> list[Engine]:
    """Ours: nobody else's state is asked the same way."""
    return [Engine(None, "bench.checkpoint:run")]


def run(case: Case) -> CheckpointRun:
    """A stream whose state is filled."""
    return CheckpointRun(case)


class CheckpointRun:
    """The job, what its functions say of their progress, and its checkpoints as they were seen."""

    def __init__(self, case: Case) -> None:
        import fabric
        from tests.support.local import local_fabric

        self._case, self._stack = case, ExitStack()
        enter = self._stack.enter_context
        self._folder = Path(enter(TemporaryDirectory(prefix="fabric-bench-checkpoint-")))
        self._progress = self._folder / "progress"
        self._progress.mkdir()
        self._checkpoints = self._folder / "checkpoints"
        environ = {
            "FABRIC_CHECKPOINT_FOLDER": str(self._checkpoints),
            "FABRIC_COORDINATOR_TIMEOUT_S": "60",  # filling keeps agents busy
        }
        self._path, self._state = "kept", "groups" if case.parameters["windows"] else "v"
        self._local = enter(local_fabric(N_AGENTS, slots=2, environ=environ))
        session = enter(fabric.connect(f"fabric://{self._local.address}", token=self._local.token))
        interval_s, state = case.parameters["interval_s"], case.parameters["state"]
        session.checkpoints(interval_s=interval_s, retained=RETAINED, state=state)
        make = _windows if case.parameters["windows"] else _functions
        plan = make(case.rows, interval_s, str(self._progress))
        self._job = enter(plan.write_stream(fabric.streams.to_blackhole(), parallelism=N_AGENTS))
        self._known: dict[int, pb.CheckpointStatus] = {}
        self._new_bytes: dict[int, int] = {}
        self._inodes: set[int] = set()
        self._first = 1 << 62  # not filled yet
        self._filled_s = self._fill()

    def work(self) -> None:
        """A second of the stream; checkpoints are looked for, for they are soon forgotten."""
        end_s = time.monotonic() + _ROUND_S
        while time.monotonic() < end_s:
            self._look()
            time.sleep(0.1)

    def answer(self) -> Answer:
        """Everything the module promises; the state is then lost with an agent, and restored."""
        from fabric.clients.demo.checksum import checksum

        wanted, interval_s = (self._case.parameters[each] for each in ("measured", "interval_s"))
        limit_s = PATIENCE_S + 2 * wanted * interval_s
        self._until(lambda: len(self._measured()) >= wanted, "checkpoints", limit_s)
        found = self._measured()
        ticks = _ticks(self._progress)
        seconds = [one.seconds for one in found]
        total = found[-1].bytes
        extra = {
            "p50_s": round(statistics.median(seconds), 3),
            "p99_s": round(float(np.percentile(seconds, 99)), 3),
            "max_s": round(max(seconds), 3),
            "checkpoints": len(found),
            "new_mb": round(
                statistics.median(self._new_bytes[c.checkpoint] for c in found) / 1e6, 1
            ),
            "total_mb": round(total / 1e6),
            "dip": round(_dip(found, ticks), 3),
            "rows_s": round(_between(found, ticks)),
            **self._read(),
            "folder_ratio": round(sum(_sizes(self._checkpoints).values()) / (RETAINED * total), 3),
            "fill_s": round(self._filled_s, 1),
        }
        restored_s = self._lose()
        extra["restore_s"] = round(restored_s, 2)
        extra["restore_mb_s"] = round(total / 1e6 / restored_s)
        import pyarrow as pa

        return Answer(self._case.rows, checksum(pa.table({"keys": [self._case.rows]}))[1], extra)

    def close(self) -> None:
        """Cancel the job, stop the agents, remove all files."""
        self._stack.close()

    def _fill(self) -> float:
        """Wait for all keys, then for the checkpoint that has them all, and the one after it."""
        begun = time.monotonic()
        self._until(lambda: len(list(self._progress.glob("*.filled"))) == N_AGENTS, "keys", FILL_S)
        filled_s, filled = time.monotonic() - begun, time.time()
        self._until(
            lambda: sum(c.begun_s > filled for c in self._known.values() if _done(c)) >= 2,
            "the checkpoint of all keys", FILL_S,
        )  # fmt: skip
        self._first = max(number for number, one in self._known.items() if _done(one)) + 1
        return filled_s

    def _measured(self) -> list[pb.CheckpointStatus]:
        self._look()
        known = sorted(self._known.items())
        return [one for number, one in known if number >= self._first and _done(one)]

    def _look(self) -> None:
        for one in self._job.checkpoints():
            if one.state == "aborted" and one.checkpoint >= self._first:
                raise BenchError(f"checkpoint {one.checkpoint} was given up: {one.reason}")
            self._known[one.checkpoint] = one
            if _done(one) and one.checkpoint not in self._new_bytes:
                self._new_bytes[one.checkpoint] = self._added(one.checkpoint)

    def _added(self, checkpoint: int) -> int:
        """Bytes of files that no checkpoint had which was seen before this one."""
        folders = [manifest.parent for manifest in self._checkpoints.glob("*/*/MANIFEST")]
        folder = next((each for each in folders if int(each.name) == checkpoint), None)
        sizes = {} if folder is None else _sizes(folder)  # it may have been removed
        new = sizes.keys() - self._inodes
        self._inodes |= new
        return sum(sizes[inode] for inode in new)

    def _read(self) -> dict[str, float]:
        """What the stream does while its state is read, and while it is not, by turns."""
        state = self._job.state(self._path, self._state)
        step = self._case.rows // READ_KEYS
        spans: dict[str, list[tuple[float, float]]] = {"read": [], "poll": [], "": []}
        took: dict[str, list[float]] = {what: [] for what in spans}
        for what in READ_TURNS * list(spans):
            begun, end_s = time.time(), time.monotonic() + READ_S
            while (began_s := time.monotonic()) < end_s:
                if what:
                    first = len(took[what]) % step if what == "read" else 0
                    keys = range(first, self._case.rows, step)[:READ_KEYS]
                    found = state.get_many({"k": keys}).num_rows
                    if found != len(keys):
                        raise BenchError(f"{found} of {len(keys)} keys have a state")
                    took[what].append(time.monotonic() - began_s)
                time.sleep(max(0.0, 0.1 - (time.monotonic() - began_s)))
            spans[what].append((begun, time.time()))
        ticks = _ticks(self._progress)
        rates = {
            what: statistics.median(_rate(ticks, *span) for span in each)
            for what, each in spans.items()
        }
        found_out = {}
        for what in ("read", "poll"):
            found_out[f"{what}_dip"] = round(1 - rates[what] / rates[""], 3)
            found_out[f"{what}s_s"] = round(len(took[what]) / (READ_TURNS * READ_S), 1)
            found_out[f"{what}_ms"] = round(1000 * statistics.median(took[what]), 1)
        return found_out

    def _lose(self) -> float:
        """Kill an agent, start it anew, and wait for its rows."""
        self._local.kill(0)
        begun, wall = time.monotonic(), time.time()
        self._local.restart(0)
        from tests.support.wait import wait_until

        wait_until(lambda: _flows(self._progress, wall), PATIENCE_S)
        return time.monotonic() - begun

    def _until(self, reached: object, what: str, limit_s: float = PATIENCE_S) -> None:
        assert callable(reached)
        end_s = time.monotonic() + limit_s
        while not reached():
            self._look()
            if self._job.state != "running" or time.monotonic() > end_s:
                raise BenchError(f"no {what} within {limit_s:.0f} s: {self._job.error}")
            time.sleep(0.1)


def _done(one: pb.CheckpointStatus) -> bool:
    return one.state in _COMPLETE


def _functions(n_keys: int, interval_s: float, progress: str) -> fabric.DataFrame:
    """A function with a value of each key."""
    from fabric import streams

    return (
        _rows(n_keys)
        .process(
            _touching(n_keys, interval_s, progress),
            keys="k",
            schema={"k": "int64"},
            state={"v": streams.value_state("binary")},
        )
        .named("kept")
    )


def _windows(n_keys: int, interval_s: float, progress: str) -> fabric.DataFrame:
    """An open window of each key, with a value."""
    from fabric import arrow_udf, col, count

    lets = arrow_udf(_letting(n_keys, interval_s, progress), returns="bool")
    some = _rows(n_keys).with_watermark("ts", "1 hour").filter(lets("split", "fills"))
    valued = some.select("ts", "k", v=arrow_udf(_valued(), returns="binary")("k"))
    open_ones = valued.group_by("k").window("3650 days").agg(n=count(), v=col("v").last())
    return open_ones.named("kept")


def _rows(n_keys: int) -> fabric.DataFrame:
    """The first rows have each key once; the source's own key goes for those that follow."""
    import fabric
    from fabric import col, streams

    made = streams.generator(n_keys=n_keys, n_splits=N_AGENTS, seed=5)
    number = col("row") * N_AGENTS + col("split")
    fills = number < n_keys
    key = fabric.when(fills).then(number).otherwise(col("key"))
    return made.select("split", "ts", k=key, fills=fills)


def _touching(n_keys: int, interval_s: float, progress: str) -> fabric.Process:
    """Writes what fills, then reads every key that comes and writes what the churn allows."""
    import os
    import struct
    import time

    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    import fabric

    share, value_bytes = CHURN * n_keys / interval_s / N_AGENTS, VALUE_BYTES

    class Touching(fabric.Process):
        def open(self) -> None:
            self._pool = np.random.default_rng(os.getpid()).bytes(1 << 24)
            name = f"{progress}/{os.getpid()}-{time.time_ns()}.ticks"
            self._out = open(name, "ab", buffering=0)  # noqa: SIM115
            self._began_s, self._written, self._n = 0.0, 0, 0
            self._through = set[int]()

        def close(self) -> None:
            self._out.close()

        def on_batch(
            self, ctx: fabric.ProcessContext, keys: pa.RecordBatch, rows: pa.RecordBatch
        ) -> None:
            began_us = time.time_ns() // 1000
            state = ctx.state("v")
            some = keys.filter(rows["fills"])
            if some.num_rows:
                state.put_many(some, self._values(some.num_rows))
            others = keys.filter(pc.invert(rows["fills"]))
            if self._is_full(rows) and others.num_rows:
                if state.get_many(others).null_count:
                    raise ValueError("a key has no value")
                self._churn(state, others)
            tick = began_us, time.time_ns() // 1000, rows.num_rows
            self._out.write(struct.pack("<qqq", *tick))

        def _is_full(self, rows: pa.RecordBatch) -> bool:
            """Whether each split has come to the rows that fill nothing: a split is in order."""
            if len(self._through) < N_AGENTS:
                there = rows.filter(pc.invert(rows["fills"]))["split"]
                self._through.update(there.unique().to_pylist())
                if len(self._through) == N_AGENTS:
                    self._began_s = time.monotonic()
                    open(f"{self._out.name}.filled", "wb").close()
                return False
            return True

        def _churn(self, state: object, keys: pa.RecordBatch) -> None:
            due = int((time.monotonic() - self._began_s) * share) - self._written
            some = keys.slice(0, max(0, due))
            if some.num_rows:
                state.put_many(some, self._values(some.num_rows))  # type: ignore[attr-defined]
                self._written += some.num_rows

        def _values(self, n: int) -> pa.Array:
            self._n = (self._n + 7919) % ((1 << 24) - n * value_bytes)
            offsets = np.arange(n + 1, dtype=np.int32) * value_bytes
            data = pa.py_buffer(self._pool).slice(self._n, n * value_bytes)
            return pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(offsets), data])

    return Touching()


def _letting(n_keys: int, interval_s: float, progress: str) -> Callable[..., pa.Array]:
    """Lets rows through that fill, and then as many of a split as the churn allows."""
    share = CHURN * n_keys / interval_s / N_AGENTS
    own: dict[str, Any] = {}

    def let(split: pa.Array, fills: pa.Array) -> pa.Array:
        import os
        import struct
        import time

        import numpy as np
        import pyarrow as pa

        began_us = time.time_ns() // 1000
        if not own:
            name = f"{progress}/{os.getpid()}-{time.time_ns()}.ticks"
            own.update(out=open(name, "ab", buffering=0), began_s=0.0, let=0)  # noqa: SIM115
        mask = np.array(fills, np.bool_)
        if not own["began_s"] and not mask.all():
            own["began_s"] = time.monotonic()
            open(f"{own['out'].name}.filled", "wb").close()
        if own["began_s"]:
            due = max(0, int((time.monotonic() - own["began_s"]) * share) - own["let"])
            others = np.flatnonzero(~mask)[:due]
            mask[others] = True
            own["let"] += len(others)
        own["out"].write(struct.pack("<qqq", began_us, time.time_ns() // 1000, len(mask)))
        return pa.array(mask)

    return let


def _valued() -> Callable[[pa.Array], pa.Array]:
    """Gives each row a value of `VALUE_BYTES` that can't be compressed."""
    length = VALUE_BYTES

    def valued(keys: pa.Array) -> pa.Array:
        import numpy as np
        import pyarrow as pa

        n = len(keys)
        data = np.random.default_rng(keys[0].as_py() if n else 0).bytes(n * length)
        offsets = np.arange(n + 1, dtype=np.int32) * length
        return pa.Array.from_buffers(pa.binary(), n, [None, *map(pa.py_buffer, (offsets, data))])

    return valued


def _ticks(folder: Path) -> np.ndarray:
    """When batches were worked on, by all tasks; (n, 3): microseconds, from and to, and rows."""
    tick = 3 * np.dtype(np.int64).itemsize
    found = [path.read_bytes() for path in sorted(folder.glob("*.ticks"))]
    whole = [data[: len(data) // tick * tick] for data in found]
    return np.frombuffer(b"".join(whole), np.int64).reshape(-1, 3)


def _flows(folder: Path, wall_s: float) -> bool:
    """Whether as many tasks as there are work on rows since then, each begun anew."""
    again = [path for path in folder.glob("*.ticks") if path.stat().st_ctime > wall_s]
    begun = [path for path in again if int(path.stem.split("-")[1]) > wall_s * 1e9]
    return len([path for path in begun if path.stat().st_size]) >= N_AGENTS


def _rate(ticks: np.ndarray, begin_s: float, end_s: float) -> float:
    """Rows a second between two moments; those of a batch are spread over the time it took.

    Counted where it ended, the last batch of a short while would be missing: a checkpoint ends
    shortly after a barrier, and with it after a batch.
    """
    began, ended, rows = ticks.astype(np.float64).T
    inside = np.minimum(ended, end_s * 1e6) - np.maximum(began, begin_s * 1e6)
    share = np.clip(inside / np.maximum(ended - began, 1.0), 0.0, 1.0)
    return float((rows * share).sum()) / (end_s - begin_s)


def _between(found: Sequence[pb.CheckpointStatus], ticks: np.ndarray) -> float:
    """The median rate from the end of one to the beginning of the next."""
    pairs = pairwise(found)
    return statistics.median(
        _rate(ticks, one.begun_s + one.seconds, other.begun_s) for one, other in pairs
    )


def _dip(found: Sequence[pb.CheckpointStatus], ticks: np.ndarray) -> float:
    """How much slower it is while a checkpoint is under way."""
    during = [_rate(ticks, one.begun_s, one.begun_s + one.seconds) for one in found]
    return 1 - statistics.median(during) / _between(found, ticks)


def _sizes(folder: Path) -> dict[int, int]:
    """Bytes by inode of what lies in a folder; a file with several names comes once."""
    found: dict[int, int] = {}
    for path in folder.rglob("*"):
        try:
            stat = os.lstat(path)
        except FileNotFoundError:  # removed just now
            continue
        if path.is_file():
            found[stat.st_ino] = stat.st_size
    return found


BENCHMARK = Benchmark(
    name="checkpoint",
    about="checkpoints of much state, a hundredth of it changed between two",
    cases=cases,
    engines=engines,
    rounds=10,
    quick_rounds=3,
    round_s=0.5,
    timeout_s=1800.0,
)
