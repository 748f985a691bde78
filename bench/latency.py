"""How long a row takes from its creation to whoever reads the stream, at 10 K rows/s.

    generator ──hash by key──► function with state a key ──► this process
    (a split a task)           (its how-manieth of its key)

Rows are created evenly in time, whatever the fabric does; `ts` says when, and that is what counts:
a row that waits because its source was late, or behind a batch, has waited. Both ends look at the
clock of one host. "embedded": all in one process, rows are taken with `iter_batches`; "two agents":
two processes, each with sources, functions and a tap, which this process reads by Flight;
"embedded, by Flight": one process, with such a tap. A second of warm-up is dropped. `p99_ms` and
its kin are of all rows behind that; the reader must have had each row of theirs once, and each
key's rows counted from one to the next. The call of `work` with which the harness warms an engine
is a second long; `seconds` is a whole job, with its start. `wake_p99_ms` is the machine's part: how
late a thread wakes that sleeps for half a millisecond, before the first job, when all is idle.

Rows are gathered for as long as `latency` says: a millisecond for ours, and as long as by itself
(20 ms) in the row "default". "windows, two agents" asks what that saves: 20 K rows/s in windows of
ten seconds, and the `cores` that all processes of the fabric take (`latencies/windows.py`).

The peer is Flink, local with two slots, in every case: the same rows at the same pace, the same
state by key in a Java function, and the engine's process reads what comes by sockets; once with a
buffer timeout of 0 ms, once with Flink's default of 100.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from bench.harness import Answer, BenchError, Benchmark, Case, Engine
from bench.latencies import windows
from bench.latencies.rows import COLUMNS, N_KEYS, RATE, SPARE_S, WARM_S, answer_of, n_rows_of

if TYPE_CHECKING:
    import pyarrow as pa

    import fabric
    from fabric.clients.job.host import Partition
    from fabric.clients.session.session import Session

ROW_BYTES = 36
SECONDS, QUICK_SECONDS = 20.0, 5.0
START_S = 30.0
CLOCKS_APART_US = 200
WAKES, SLEEP_S = 3_000, 5e-4
PARALLELISM = {"embedded": 1, "two agents": 2, "embedded, by Flight": 1}
WINDOWS = "windows, two agents"
PEERS = {"flink 0 ms": "at_once_run", "flink 100 ms": "run"}
QUICKEST = "1 ms"


def cases(quick: bool) -> list[Case]:
    """In one process, on two agents, and in one process with a Flight client."""
    seconds = QUICK_SECONDS if quick else SECONDS
    rows = int(RATE * seconds)
    found = [
        Case(name, rows, rows * ROW_BYTES, {"seconds": seconds, "splits": n_splits})
        for name, n_splits in PARALLELISM.items()
    ]
    rows = int(windows.RATE * (windows.START_S + seconds + windows.END_S))
    return [*found, Case(WINDOWS, rows, rows * ROW_BYTES, {"seconds": seconds, "splits": 2})]


def engines(case: Case) -> list[Engine]:
    """Ours with the least latency and its default, and Flink with both ways to send what it has."""
    flink = "bench.latencies.flink_engine"
    peers = [Engine(name, f"{flink}:{function}") for name, function in PEERS.items()]
    ours = [Engine(None, "bench.latency:run"), Engine("default", "bench.latency:default_run")]
    return ours if case.name == WINDOWS else ours + peers


def run(case: Case) -> LatencyRun | windows.WindowsRun:
    """A fabric that gathers as little as it can, ready."""
    return _run(case, QUICKEST)


def default_run(case: Case) -> LatencyRun | windows.WindowsRun:
    """One that gathers as it does by itself."""
    return _run(case, None)


def _run(case: Case, latency: str | None) -> LatencyRun | windows.WindowsRun:
    kind = windows.WindowsRun if case.name == WINDOWS else LatencyRun
    return kind(case, latency)


class LatencyRun:
    """The fabric of a case; every call of `work` is a job, the last one is what is told."""

    def __init__(self, case: Case, latency: str | None) -> None:
        import fabric
        from tests.support.local import local_fabric

        self._case, self._stack, self._n_calls = case, ExitStack(), 0
        self._wake_p99_ms = _wake_p99_ms()
        enter, parallelism = self._stack.enter_context, PARALLELISM[case.name]
        self._taps = case.name != "embedded"
        if case.name != "two agents":
            self._session = enter(
                fabric.connect(serve=self._taps, parallelism=parallelism, latency=latency)
            )
        else:
            local = enter(local_fabric(parallelism, slots=4))
            address = f"fabric://{local.address}"
            self._session = enter(fabric.connect(address, token=local.token, latency=latency))
        self._seen: list[tuple[int, pa.RecordBatch]] = []

    def work(self) -> None:
        """One job."""
        self._n_calls += 1
        seconds = self._case.parameters["seconds"] if self._n_calls > 1 else WARM_S
        self._seen.clear()
        offset_us = _offset_us()
        if self._taps:
            self._tap(seconds)
        else:
            self._iterate(seconds)
        if abs(_offset_us() - offset_us) > CLOCKS_APART_US:
            raise BenchError("the machine's clock was set meanwhile: measure again")

    def answer(self) -> Answer:
        """Percentiles of what came behind the warm-up, each row of it once."""
        n_batches = len(self._seen)
        extra = {
            "wake_p99_ms": self._wake_p99_ms,
            "rows_a_batch": round(sum(b.num_rows for _, b in self._seen) / n_batches, 1),
        }
        found = {
            name: np.concatenate([batch[name].to_numpy() for _, batch in self._seen]).astype(
                np.int64
            )
            for name in COLUMNS
        }
        found["seen"] = np.concatenate([np.full(b.num_rows, at_us) for at_us, b in self._seen])
        parameters = self._case.parameters
        return answer_of(found, parameters["splits"], parameters["seconds"], extra)

    def close(self) -> None:
        """Stop it."""
        self._stack.close()

    def _iterate(self, seconds: float) -> None:
        """Take rows as who embeds the fabric does; to leave the loop ends the job."""
        end_us = math.inf
        for batch in _counted(self._session, 0, 1).iter_batches():
            now_us = time.time_ns() // 1000
            if not self._seen:
                end_us = now_us + (seconds + WARM_S + SPARE_S) * 1e6
            self._seen.append((now_us, batch))
            if now_us > end_us:
                break

    def _tap(self, seconds: float) -> None:
        """Read the last step's partitions beside a job of which no rows are left at the end."""
        from fabric import col

        n_rows, n_tasks = n_rows_of(seconds), PARALLELISM[self._case.name]
        plan = _counted(self._session, n_rows, n_tasks).named("out").configure("out", tap=True)
        job = self._session.submit(plan.filter(col("n") < 0), parallelism=n_tasks)
        with job:
            taps = _taps(job)
            with ThreadPoolExecutor(len(taps)) as pool:
                list(pool.map(self._read, taps))
            job.wait(START_S)

    def _read(self, partition: Partition) -> None:
        """Every batch of a tap, and when it was seen."""
        from pyarrow import flight

        auth = [(b"authorization", b"Bearer " + self._session.token.encode())]
        with flight.connect(partition.locations[0]) as client:
            reader = client.do_get(
                flight.Ticket(partition.ticket), flight.FlightCallOptions(headers=auth)
            )
            for chunk in reader:
                if chunk.data.num_rows:
                    self._seen.append((time.time_ns() // 1000, chunk.data))


def _counted(session: Session, n_rows: int, n_splits: int) -> fabric.DataFrame:
    """`n_rows` rows (0: without end), each with how many of its key there were."""
    from fabric import streams

    made = streams.generator(
        rows_per_s=RATE, n_rows=n_rows, n_splits=n_splits, n_keys=N_KEYS, session=session
    )
    return made.exchange("key", mode="pipelined").process(
        _counting(),
        keys="key",
        schema={"split": "int32", "row": "int64", "key": "int64", "ts": "int64", "n": "int64"},
        state={"n": streams.value_state("int64")},
    )


def _counting() -> fabric.Process:
    """How many rows of its key there were with each row."""
    import numpy as np
    import pyarrow as pa

    import fabric

    class Counting(fabric.Process):
        def on_batch(
            self, ctx: fabric.ProcessContext, keys: pa.RecordBatch, rows: pa.RecordBatch
        ) -> pa.RecordBatch:
            key = keys.column(0).to_numpy()
            order = np.argsort(key, kind="stable")
            ordered = key[order]
            first = np.flatnonzero(np.diff(ordered, prepend=-1))
            counts = np.diff(first, append=len(key))
            known = pa.record_batch({"key": ordered[first]})
            state = ctx.state("n")
            before = state.get_many(known).fill_null(0).to_numpy()
            state.put_many(known, pa.array(before + counts))
            n = np.empty(len(key), np.int64)
            n[order] = np.repeat(before - first, counts) + np.arange(1, len(key) + 1)
            columns = [rows["split"], rows["row"], rows["key"], rows["ts"].cast(pa.int64()), n]
            return pa.record_batch(columns, names=["split", "row", "key", "ts", "n"])

    return Counting()


def _taps(job: fabric.Job) -> list[Partition]:
    """The partitions of the last step, once its tasks run; they make it wait, and miss no row."""
    from fabric.errors import NotFoundError

    end_s = time.monotonic() + START_S
    while True:
        try:
            return job.partitions("out", lossless=True)
        except NotFoundError:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.002)


def _offset_us() -> int:
    """How far the clock of the day is from that which only goes on; the closest of some looks."""
    looks = []
    for _ in range(50):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        day = time.time_ns()
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        looks.append((after - before, day - before))
    return min(looks)[1] // 1000


def _wake_p99_ms() -> float:
    late_ns = []
    for _ in range(WAKES):
        begun_ns = time.perf_counter_ns()
        time.sleep(SLEEP_S)
        late_ns.append(time.perf_counter_ns() - begun_ns - SLEEP_S * 1e9)
    return round(float(np.percentile(late_ns, 99)) / 1e6, 3)


BENCHMARK = Benchmark(
    name="latency",
    about="from a row's creation to its reader, by a keyed function with state, beside Flink",
    cases=cases,
    engines=engines,
    rounds=1,
    quick_rounds=1,
    round_s=0.001,
    timeout_s=300.0,
)
