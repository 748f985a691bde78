"""An App as a job: embedded and on agents, stopped, gone on with, and with an agent that is killed.

The oracle is a model of the rows of the generator's formula.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

import fabric
from fabric import App, EventStream, streams
from fabric.io.readers import generator
from fabric.plan.sources import GeneratorStream
from tests.support.held import held
from tests.support.local import LocalFabric, local_fabric
from tests.support.sampled import sampled
from tests.support.wait import wait_until

N_ROWS, N_SPLITS, N_KEYS, SEED = 20_000, 2, 23, 5
PATIENCE_S = 120.0


@dataclass
class Order:
    user: int
    amount: int


@dataclass
class Total:
    user: int
    n: int
    amount: int


def shop(folder: Path, session: fabric.Session, *, alone: bool = False) -> App:
    """Each order with its number and the sum by user; every hundredth; and users, by another.

    The first of these agents may be `alone`: each task has a process, which takes a while to start.
    """
    made = streams.generator(
        n_rows=N_ROWS, n_splits=N_SPLITS, n_keys=N_KEYS, seed=SEED, session=session
    )  # fmt: skip
    orders = made.select(user="key", amount="row")
    app = App("shop")
    totals, counts = app.Table("totals", default=int), app.Table("counts", default=int)

    @app.agent(orders, key="user", sink=folder / "totals")
    async def count(orders: EventStream[Order]) -> AsyncIterator[Total]:
        async for order in orders:
            totals[order.user] += order.amount
            counts[order.user] += 1
            yield Total(order.user, counts[order.user], totals[order.user])

    if alone:
        return app

    @app.agent(count, sink=folder / "hundreds")
    async def hundreds(totals: EventStream[Total]) -> AsyncIterator[Total]:
        async for total in totals.filter(lambda total: total.n % 100 == 0):
            yield total

    @app.agent(orders, sink=folder / "users", yields={"user": "int64"})
    async def users(orders: EventStream[Order]) -> AsyncIterator[Any]:
        async for rows in orders.batches():
            yield rows.select(["user"])

    return app


def amounts() -> dict[int, Counter[int]]:
    """How often each user has each amount."""
    source = GeneratorStream(0, N_ROWS, N_KEYS, N_SPLITS, SEED)
    found: dict[int, Counter[int]] = defaultdict(Counter)
    for split in range(N_SPLITS):
        rows = generator.rows(source, split, 0, generator.n_rows_of(N_ROWS, split, N_SPLITS), 0)
        for user, amount in zip(rows["key"].to_pylist(), rows["row"].to_pylist(), strict=True):
            found[user][amount] += 1
    return found


def written(folder: Path) -> list[tuple[int, ...]]:
    table = ds.dataset(folder, format="parquet").to_table()
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def check(folder: Path, *, alone: bool = False) -> None:
    """Nothing is lost or doubled: numbers rise by one, and each sum adds an amount of the user."""
    totals, expected = written(folder / "totals"), amounts()
    steps: dict[int, Counter[int]] = defaultdict(Counter)
    last: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for user, number, amount in totals:
        before, sum_before = last[user]
        assert number == before + 1
        steps[user][amount - sum_before] += 1
        last[user] = number, amount
    assert steps == expected
    if alone:
        return
    assert written(folder / "hundreds") == [row for row in totals if row[1] % 100 == 0]
    users = Counter(user for (user,) in written(folder / "users"))
    assert users == {user: some.total() for user, some in expected.items()}


@pytest.mark.parametrize("store", ["memory", "rocksdb"])
def test_agents_of_an_app_are_one_job(tmp_path: Path, store: Any) -> None:
    with fabric.connect() as session:
        session.checkpoints(folder=str(tmp_path / "checkpoints"), interval_s=0.2)
        app = shop(tmp_path, session)
        app.store = store
        job = app.run(parallelism=2).wait()
        n_scans = job.plan().stages.count("streams.generator(")
        assert n_scans == 1, "the source of two agents is read once"
    check(tmp_path)


def test_an_app_that_was_stopped_goes_on(tmp_path: Path) -> None:
    with fabric.connect() as session, held(tmp_path / "held"):
        session.checkpoints(folder=str(tmp_path / "checkpoints"), interval_s=0.2)
        job = shop(tmp_path, session, alone=True).run(parallelism=2)
        wait_until(lambda: published(job) > 1, PATIENCE_S)
        assert job.state("count", "counts").table().num_rows > 0
        job.stop()
        assert 0 < len(written(tmp_path / "totals")) < N_ROWS
    with fabric.connect() as session:
        session.checkpoints(folder=str(tmp_path / "checkpoints"), interval_s=0.2)
        shop(tmp_path, session, alone=True).run(parallelism=1).wait()
    check(tmp_path, alone=True)


def published(job: fabric.Job) -> int:
    """The newest checkpoint whose rows are there."""
    return max((c.checkpoint for c in job.checkpoints() if c.state == "published"), default=0)


@pytest.mark.parametrize("nth", sampled([1, 2, 3, 5, 8, 13], 1, salt="app"))
def test_an_agent_is_killed(tmp_path: Path, nth: int) -> None:
    with local_fabric(2, slots=4) as running, connected(running) as session:
        session.checkpoints(interval_s=0.2)
        with running.held():
            job = shop(tmp_path, session, alone=True).run(parallelism=2)
            wait_until(lambda: published(job) >= nth, PATIENCE_S)
            running.kill(1)
            running.restart(1)
        job.wait(PATIENCE_S)
        assert max(task.attempt for task in job.tasks()) > 0, "tasks began again"
    check(tmp_path, alone=True)


def connected(running: LocalFabric) -> fabric.Session:
    return fabric.connect(f"fabric://{running.address}", token=running.token)
