"""Views of a stream while rows flow: looking keys up, and reading all of them.

    generator ─► each row is two: +1 and -1 ──by account──► running sums ──► view
    (rows_s)                                                 (n changes a row)

Two agents. The balances of any checkpoint add up to nothing, and rows of two checkpoints would not:
each read is checked for that, and `checksum` is of the accounts, which DuckDB counts. `seconds` and
`rate` are of look-ups, one after the other, from one client.

get_p50_ms, get_p99_ms    of a row of the last complete checkpoint; live_...: of what is there now
read_ms                   median of reading all rows by Flight
first_read_ms             of the first time that a checkpoint is read, which writes files
updates_s                 changes that came to the view in a second
checkpoint_ms             median of checkpoints, view and sums together
"""

from __future__ import annotations

import random
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bench.harness import Answer, BenchError, Benchmark, Case, Engine

if TYPE_CHECKING:
    import pyarrow as pa

    import fabric

N_AGENTS, INTERVAL_S, N_GETS, N_READS = 2, 1.0, 2_000, 8
ROW_BYTES = 24
CASES = {
    "20 K updates/s, 100 K keys": (5_000, 100_000),
    "200 K updates/s, 1 M keys": (50_000, 1_000_000),
}
"""Rows a second, each of which changes two sums, a change being two rows; and accounts."""
_SETTLED_S = 8.0


def cases(quick: bool) -> list[Case]:
    """Few and many updates."""
    return [
        Case(name, N_GETS, N_GETS * ROW_BYTES, {"rows_s": rows_s, "keys": keys})
        for name, (rows_s, keys) in list(CASES.items())[: 1 if quick else None]
    ]


def engines(case: Case) -> list[Engine]:
    """Ours, and the oracle: nobody else's state is read by Flight."""
    return [Engine(None, "bench.views:run"), Engine("duckdb", "bench.views:oracle")]


def run(case: Case) -> ViewRun:
    """A view that all accounts are in."""
    return ViewRun(case)


class ViewRun:
    """The job and its view."""

    def __init__(self, case: Case) -> None:
        import fabric
        from fabric import col, lit, streams
        from tests.support.local import local_fabric

        self._stack, self._chance = ExitStack(), random.Random(1)
        self._n_keys, rows_s = case.parameters["keys"], case.parameters["rows_s"]
        enter = self._stack.enter_context
        folder = Path(enter(TemporaryDirectory(prefix="fabric-bench-views-")))
        local = enter(local_fabric(N_AGENTS, slots=2))
        self._session = enter(fabric.connect(f"fabric://{local.address}", token=local.token))
        self._session.checkpoints(interval_s=INTERVAL_S, folder=folder)
        first = streams.generator(
            n_rows=self._n_keys, n_keys=1, n_splits=1, session=self._session
        ).select(key=col("row"))
        rest = streams.generator(
            n_keys=self._n_keys, n_splits=N_AGENTS, rows_per_s=rows_s, session=self._session
        ).select("key")
        sides = fabric.array(lit(1), lit(-1))
        moved = first.union(rest).with_columns(side=sides).explode("side")
        account = (col("key") + (col("side") > 0).cast("int64")) % self._n_keys
        sums = moved.select(account=account, side=col("side")).group_by("account")
        self._job = sums.agg(n=col("side").sum()).materialize(
            "balances", key="account", parallelism=N_AGENTS
        )
        self._stack.callback(self._job.cancel)
        self._view = self._filled()

    def _filled(self) -> fabric.View:
        from fabric.errors import FabricError

        deadline = time.monotonic() + 300
        while True:
            try:
                view = self._session.view("balances")
                if view.read().count() == self._n_keys:
                    time.sleep(_SETTLED_S)
                    return view
            except FabricError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.5)

    def work(self) -> None:
        """Look-ups of any keys."""
        for _ in range(N_GETS):
            self._view.get(self._chance.randrange(self._n_keys))

    def answer(self) -> Answer:
        """What the module promises."""
        from fabric.clients.demo.checksum import checksum

        begun, before = time.monotonic(), self._updates()
        extra: dict[str, Any] = {}
        for live, what in ((False, "get"), (True, "live")):
            seconds = sorted(self._timed(live) for _ in range(N_GETS))
            extra[f"{what}_p50_ms"] = round(1e3 * statistics.median(seconds), 2)
            extra[f"{what}_p99_ms"] = round(1e3 * seconds[int(0.99 * N_GETS)], 2)
        firsts, again = list[float](), list[float]()
        for _ in range(N_READS):
            for of in (firsts, again):
                start = time.perf_counter()
                table = self._read()
                of.append(time.perf_counter() - start)
            time.sleep(INTERVAL_S)
        extra["first_read_ms"] = round(1e3 * statistics.median(firsts), 1)
        extra["read_ms"] = round(1e3 * statistics.median(again), 1)
        extra["updates_s"] = round((self._updates() - before) / (time.monotonic() - begun))
        done = [one.seconds for one in self._job.checkpoints() if one.state == "published"]
        extra["checkpoint_ms"] = round(1e3 * statistics.median(done), 1)
        rows, told = checksum(table.select(["account"]))
        return Answer(rows, told, extra)

    def _timed(self, live: bool) -> float:
        key = self._chance.randrange(self._n_keys)
        start = time.perf_counter()
        found = self._view.get(key, live=live)
        seconds = time.perf_counter() - start
        if found is None or found["account"] != key:
            raise BenchError(f"account {key} is {found}")
        return seconds

    def _read(self) -> pa.Table:
        from fabric.flight.client import Client

        with Client(self._session.flight_url, self._session.token) as client:
            import pyarrow as pa

            info = client.info(("dataset", "balances"))
            table = pa.Table.from_batches(client.read(info), info.schema)
        if (total := sum(table["n"].to_numpy())) != 0:
            raise BenchError(f"the balances of a checkpoint add up to {total}, which must be 0")
        return table

    def _updates(self) -> int:
        stage = self._job.status.stages[-1]
        return int(stage.rows_in)

    def close(self) -> None:
        """Cancel the job and stop the agents."""
        self._stack.close()


def oracle(case: Case) -> OracleRun:
    """DuckDB with the accounts."""
    return OracleRun(case)


class OracleRun:
    """Which accounts there are."""

    def __init__(self, case: Case) -> None:
        self._n_keys = case.parameters["keys"]

    def work(self) -> pa.Table:
        """All of them."""
        import duckdb

        with duckdb.connect() as connection:
            query = f"SELECT range AS account FROM range({self._n_keys})"
            return connection.sql(query).to_arrow_table()

    def answer(self) -> Answer:
        """Their number and checksum."""
        from fabric.clients.demo.checksum import checksum

        return Answer(*checksum(self.work()))

    def close(self) -> None:
        """Nothing is open."""


BENCHMARK = Benchmark(
    name="views",
    about="looking keys up in a view of a stream while rows flow",
    cases=cases,
    engines=engines,
    rounds=5,
    quick_rounds=1,
    round_s=0.5,
)
