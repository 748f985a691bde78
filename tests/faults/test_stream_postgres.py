"""One stream into four tables of PostgreSQL, while everybody dies in turn (F14).

Rows, counts in windows, late rows (dead letters) and counts that change are each there once: the
tables are compared with each other by the database that holds them.
"""

from __future__ import annotations

import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

import fabric
from fabric import failpoints, streams
from fabric.clients.dataframe.targets import by_changes
from fabric.ids import new_id
from fabric.plan.nodes import Node, Sink, Union
from fabric.plan.targets import PostgresTarget
from tests.support.faults import wait_hit
from tests.support.local import LocalFabric, local_fabric
from tests.support.postgres import PostgresServer
from tests.support.sampled import sampled
from tests.support.stream_ordeal import StreamOrdeal
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(300)
PATIENCE_S = 120.0
N_ROWS, ROWS_PER_S, N_TASKS = 30_000, 4_000, 2
POINTS = {
    "postgres.copied": (1, 6, 11), "postgres.moved": (1, 3, 8), "postgres.committed": (1, 2, 7),
    "stream.sink-prepared": (2, 9), "agent.publishing": (1, 6), "agent.published": (4,),
}  # fmt: skip
CASES = [(name, nth) for name, times in POINTS.items() for nth in times]


class TablesOrdeal(StreamOrdeal):
    """Its tables are named ``<prefix>_rows``, ``_windows``, ``_late`` and ``_counts``."""

    def __init__(self, running: LocalFabric, folder: Path, server: PostgresServer) -> None:
        self._server, self._prefix = server, new_id("t").replace("-", "_")
        super().__init__(running, folder, interval_s=0.4)
        self._parallelism = N_TASKS

    def _written(self) -> Node:
        rows = streams.generator(
            rows_per_s=ROWS_PER_S, n_rows=N_ROWS, n_keys=50, n_splits=N_TASKS, seed=5,
            disorder="600 ms", start=datetime(2026, 1, 1, tzinfo=UTC),
        )  # fmt: skip
        timed = rows.with_watermark("ts", "100 ms")
        windows = timed.group_by("key").window("250 ms", late="side").agg(n=fabric.count())
        counts = rows.group_by("key").agg(n=fabric.count(), most=fabric.max("row"))
        by_key = self._target("counts", key=("key",))
        changes, by_key = by_changes(counts.plan.root, by_key)
        return Union((
            Sink(rows.plan.root, self._target("rows")),
            Sink(windows.plan.root, self._target("windows")),
            Sink(windows.side_output("late").plan.root, self._target("late")),
            Sink(changes, by_key),
        ))  # fmt: skip

    def _target(self, name: str, **options) -> PostgresTarget:
        return PostgresTarget(f"{self._prefix}_{name}", settings=self._server.settings(), **options)

    def check_tables(self) -> None:
        """Each row once, each result as the rows say, nothing staged, nobody at work."""
        ask, prefix = self._server.execute, self._prefix
        counted = f"SELECT count(*), count(DISTINCT (split, row)) FROM {prefix}_rows"
        assert ask(counted) == [(N_ROWS, N_ROWS)]
        assert ask(f"SELECT count(*) > 0 FROM {prefix}_late") == [(True,)]
        on_time = f"SELECT * FROM {prefix}_rows EXCEPT ALL SELECT * FROM {prefix}_late"
        windows = f"SELECT key, window_start, n FROM {prefix}_windows"
        expected = (
            "SELECT key, date_bin('250 ms', ts, '2026-01-01 00:00Z') AS window_start, count(*) "
            f"FROM ({on_time}) r GROUP BY 1, 2"
        )
        counts = f"SELECT key, n, most FROM {prefix}_counts"
        grouped = f"SELECT key, count(*), max(row) FROM {prefix}_rows GROUP BY 1"
        for one, other in ((windows, expected), (counts, grouped)):
            assert ask(f"({one}) EXCEPT ALL ({other})") == []
            assert ask(f"({other}) EXCEPT ALL ({one})") == []
        staged = f"SELECT tablename FROM pg_tables WHERE starts_with(tablename, '{self.job_id}')"
        assert ask(staged) == []


@pytest.mark.parametrize(("name", "nth"), sampled(CASES, 1, salt="postgres"))
def test_agent_database_and_coordinator_die_in_turn(
    name: str, nth: int, patient: dict[str, str], postgres: PostgresServer, tmp_path: Path
) -> None:
    faults = {f"agent {i}": f"{name}:{nth}:exit" for i in range(N_TASKS)}
    with local_fabric(N_TASKS, slots=1, environ=patient, faults=faults) as running:
        ordeal = TablesOrdeal(running, tmp_path, postgres)
        with running.held():
            ordeal.submit()
            victim = wait_hit(running, name, PATIENCE_S)
            assert running.agents[victim].process.wait(60) == 137
            running.restart(victim)
            ordeal.go_on(1)
            postgres.stop("immediate")
            postgres.start()
            ordeal.go_on(1)
            running.kill_coordinator()
            running.start_coordinator()
        ordeal.finish(PATIENCE_S)
        ordeal.check_tables()


@pytest.mark.soak
@pytest.mark.parametrize("name", ["postgres.copied", "postgres.moved"])
def test_an_agent_that_was_stopped_wakes_when_others_have_its_tasks(
    name: str, short: dict[str, str], postgres: PostgresServer, tmp_path: Path
) -> None:
    """Amid its transaction, whose lock the server takes from it."""
    faults = {f"agent {i}": f"{name}:3:stop" for i in range(N_TASKS)}
    with local_fabric(N_TASKS + 1, slots=1, environ=short, faults=faults) as running:
        ordeal = TablesOrdeal(running, tmp_path, postgres)
        ordeal.submit()
        victim = wait_hit(running, name, PATIENCE_S)
        wait_until(lambda: len(running.attached()) == N_TASKS, 60.0)
        ordeal.go_on(1)
        running.agents[victim].process.send_signal(signal.SIGCONT)
        ordeal.finish(PATIENCE_S)
        ordeal.check_tables()


def test_every_place_is_tried() -> None:
    assert {*POINTS} >= {name for name in failpoints.POINTS if name.startswith("postgres.")}
