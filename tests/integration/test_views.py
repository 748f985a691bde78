"""Views of streams: read by anybody while the job runs, each time as of one checkpoint.

Each event moves an amount from one account to another, so all balances of a checkpoint add up to
nothing, and rows of two checkpoints would not. Events that were counted twice, or not at all, would
be seen at the end, where DuckDB says what the balances are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.flight as fl
import pytest

import fabric
from fabric import DataFrame, Session, col, count, lit, streams
from fabric.errors import (
    ConfigError,
    DataError,
    NotFoundError,
    PartitionLostError,
    PeerLostError,
    PlanError,
)
from fabric.io.readers.generator import rows
from fabric.plan.sources import GeneratorStream
from tests.support.local import LocalFabric, local_fabric
from tests.support.lone import lone_agent

N_KEYS, N_TASKS = 1_000, 2
START = datetime(2024, 5, 1, tzinfo=UTC)
ORACLE = f"""
SELECT account, sum(amount)::BIGINT AS balance, count(*) AS n FROM (
  SELECT key AS account, row AS amount FROM made
  UNION ALL SELECT (key * 7 + 3) % {N_KEYS}, -row FROM made
) GROUP BY account
"""


@pytest.fixture(scope="module")
def one() -> Iterator[LocalFabric]:
    with lone_agent(8, {}) as running:
        yield running


@pytest.fixture
def session(one: LocalFabric, tmp_path: Path) -> Iterator[Session]:
    with fabric.connect(f"fabric://{one.address}", token=one.token) as opened:
        opened.checkpoints(interval_s=0.2, folder=tmp_path / "kept")
        yield opened


def events(session: Session, n_rows: int, *, rows_per_s: int = 0) -> DataFrame:
    return streams.generator(
        n_rows=n_rows, n_keys=N_KEYS, n_splits=N_TASKS, seed=5, start=START, session=session,
        rows_per_s=rows_per_s,
    )  # fmt: skip


def made(n_rows: int) -> pa.Table:
    source = GeneratorStream(
        n_rows=n_rows,
        n_keys=N_KEYS,
        n_splits=N_TASKS,
        seed=5,
        start_us=int(START.timestamp() * 1e6),
    )
    n = n_rows // N_TASKS
    parts = [rows(source, split, 0, n, source.start_us) for split in range(N_TASKS)]
    return pa.concat_tables([part.select(["key", "row"]) for part in parts])


def balances(session: Session, n_rows: int, *, rows_per_s: int = 0) -> DataFrame:
    """Both sides of an event are one row until they are told apart, so no checkpoint parts them."""
    source = events(session, n_rows, rows_per_s=rows_per_s)
    sides = fabric.array(lit(1), lit(-1))
    moved = source.select("key", "row", side=sides).explode("side")
    account = fabric.when(col("side") > 0).then(col("key")).otherwise((col("key") * 7 + 3) % N_KEYS)
    amounts = moved.select(account=account, amount=col("row") * col("side"))
    return amounts.group_by("account").agg(balance=col("amount").sum(), n=count())


def shown(session: Session, name: str) -> fabric.View:
    """The view, once there is a checkpoint of it."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return session.view(name)
        except NotFoundError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def by_flight(one: LocalFabric, *path: str) -> pa.Table:
    """All rows, as any Flight client reads them: without a line of ours."""
    auth = fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {one.token}".encode())])
    (agent,) = one.attached()
    with fl.connect(agent.address) as client:
        info = client.get_flight_info(fl.FlightDescriptor.for_path(*path), auth)
        parts = [client.do_get(endpoint.ticket, auth).read_all() for endpoint in info.endpoints]
    assert len(parts) == N_TASKS
    return pa.concat_tables(parts)


def test_every_answer_is_one_checkpoint(one: LocalFabric, session: Session) -> None:
    n_rows = 1_200_000
    seen, spread = [], 0
    with one.held():
        job = balances(session, n_rows, rows_per_s=50_000).materialize(
            "balances", key="account", parallelism=N_TASKS
        )
        view = shown(session, "balances")
        until(lambda: view.get(7) is not None)
        until(lambda: view.read().count())  # of a checkpoint that all have heard of
        while len(set(seen)) < 4 or not spread:  # what is read live is newer
            table = by_flight(one, "dataset", "balances")
            mine = view.read().agg(balance=col("balance").sum()).collect()
            with duckdb.connect() as connection:
                connection.register("balances", table)
                query = "SELECT sum(balance), sum(n), count(DISTINCT account), count(*)"
                (answer,) = connection.sql(f"{query} FROM balances").fetchall()
            total, n, n_accounts, n_found = answer
            assert (total, n_accounts) == (0, n_found)
            assert n % 2 == 0
            assert mine["balance"].to_pylist() == [0]
            live = view.get(7, live=True)
            found = view.get(7)
            assert live is not None
            assert found is not None
            spread += live["n"] - found["n"]
            seen.append(n)
            time.sleep(0.1)
    assert seen == sorted(seen)
    job.wait(120)
    check_end(session, n_rows)


def check_end(session: Session, n_rows: int) -> None:
    """The last rows stay as a dataset, and are what DuckDB says."""
    view = session.view("balances")
    assert view.checkpoint is None
    assert session.datasets() == ["balances"]
    found = view.read().collect()
    with duckdb.connect() as connection:
        connection.register("made", made(n_rows))
        connection.register("found", found)
        connection.register("expected", connection.sql(ORACLE).to_arrow_table())
        for query in ("expected EXCEPT ALL FROM found", "found EXCEPT ALL FROM expected"):
            assert connection.sql(f"FROM {query}").fetchall() == []
    assert len(found) == view.read().count()
    (seven,) = found.filter(pa.compute.equal(found["account"], 7)).to_pylist()
    assert view.get(7) == seven
    session.drop_dataset("balances")


@pytest.mark.parametrize("state", ["memory", "arrow"])
def test_an_agent_dies_and_the_view_goes_on(tmp_path: Path, state: Any) -> None:
    n_rows = 1_200_000
    with (
        local_fabric(2, slots=2) as two,
        fabric.connect(f"fabric://{two.address}", token=two.token) as session,
    ):
        session.checkpoints(
            interval_s=0.2, folder=tmp_path / "kept", state=state, state_memory="1 MB"
        )
        with two.held():
            job = balances(session, n_rows, rows_per_s=100_000).materialize(
                "balances", key="account", parallelism=N_TASKS
            )
            view = shown(session, "balances")
            until(lambda: view.read().count() == N_KEYS)
            for agent in (0, 1):
                checkpoint = view.checkpoint
                assert checkpoint is not None
                two.kill(agent)
                two.restart(agent)
                until(lambda c=checkpoint: added_up(view) and (view.checkpoint or c) > c + 2)
                assert view.get(7) is not None
        job.wait(120)
        assert job.status.n_attempts > 0
        check_end(session, n_rows)


def added_up(view: fabric.View) -> bool:
    """Whether it could be read; then nothing is missing, and nothing there twice."""
    try:
        found = view.read().agg(balance=col("balance").sum(), n=count()).collect()
    except (PartitionLostError, PeerLostError):
        return False
    assert found.to_pylist() == [{"balance": 0, "n": N_KEYS}]
    return True


def until(true: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_rows_that_are_taken_back_are_gone(session: Session) -> None:
    n_rows, most = 400_000, 395
    counts = events(session, n_rows).group_by("key").agg(n=count())
    job = counts.filter(col("n") < most).materialize("few", key="key", parallelism=N_TASKS)
    job.wait(60)
    found = session.view("few").read().select("key", "n").collect()
    expected = made(n_rows).group_by("key").aggregate([("row", "count")]).to_pylist()
    left = {each["key"]: each["row_count"] for each in expected if each["row_count"] < most}
    assert 0 < len(left) < N_KEYS
    assert dict(zip(*found.to_pydict().values(), strict=True)) == left
    session.drop_dataset("few")


def test_a_view_that_is_cancelled_goes_and_may_come_again(session: Session) -> None:
    for _ in range(2):
        job = events(session, 10_000_000, rows_per_s=10_000).materialize("newest", key="key")
        view = shown(session, "newest")
        assert view.keys == ["key"]
        with pytest.raises(ConfigError, match=f"'newest' is kept by job {job.id}, which runs"):
            events(session, 10).materialize("newest", key="key")
        with pytest.raises(PlanError, match="'newest' is a view of a running job, and a stream"):
            events(session, 10).join(view.read().select("key"), on="key").materialize(
                "b", key="key"
            )
        with pytest.raises(NotFoundError, match=r"'newest\.live' is a dataset and not"):
            session.view("newest.live")
        until(lambda v=view: v.read(live=True).count() == N_KEYS)
        job.cancel()
        until(lambda: session.datasets() == [])
        with pytest.raises(NotFoundError, match="there is no dataset 'newest'"):
            session.view("newest")


def test_many_keys_at_once_of_several_columns(session: Session) -> None:
    doubled = events(session, 20_000).with_columns(word=col("key").cast("string"))
    job = doubled.materialize("pairs", key=["key", "word"], parallelism=N_TASKS)
    job.wait(60)
    view = session.view("pairs")
    keys = list(range(0, 2 * N_KEYS, 100))
    found = view.get_many({"key": keys, "word": map(str, keys)})
    assert sorted(found["key"].to_pylist()) == keys[: N_KEYS // 100]
    assert view.get(100, "101") is None
    with pytest.raises(DataError, match="is keyed by key, word, got 1 values"):
        view.get(100)
    for wrong in ("a", 5.5, 1 << 70):
        with pytest.raises(DataError, match="is keyed by key: int64, word: string"):
            view.get(wrong, "b")
    with pytest.raises(DataError, match="there is no column 'word'"):
        view.get_many({"key": [1]})
    assert repr(view).startswith("View('pairs', key=['key', 'word'], 1000 rows in 2 partitions")
    session.drop_dataset("pairs")


def test_null_keys_and_nested_ones_at_the_end_as_well(session: Session) -> None:
    odd = fabric.when(col("key") > 3).then(col("key"))
    rows = events(session, 5_000).select(odd=odd, pair=fabric.struct("key"), row=col("row"))
    job = rows.materialize("odd", key=["odd", "pair"], parallelism=N_TASKS)
    shown(session, "odd")
    job.wait(60)
    view = session.view("odd")
    found = view.get(None, {"key": 2})
    assert found is not None
    assert (found["odd"], found["pair"]) == (None, {"key": 2})
    assert view.get(2, {"key": 2}) is None
    session.drop_dataset("odd")


def test_what_can_be_no_view_is_refused(session: Session) -> None:
    table = session.read_arrow({"key": [1], "n": [2]})
    with pytest.raises(PlanError, match=r'this is a table; write: .write_dataset\("t"\)'):
        table.materialize("t", key="key")
    with pytest.raises(
        PlanError, match=r'no column "kex".*write: \.materialize\("t", key=\["key"\]\)'
    ):
        events(session, 10).materialize("t", key="kex")
    with pytest.raises(PlanError, match=r'told apart by "?key"?, and upserts by "?n"?'):
        events(session, 10).group_by("key").agg(n=count()).materialize("t", key="n")
    with pytest.raises(ConfigError, match="view name 'a/b' is not allowed"):
        events(session, 10).materialize("a/b", key="key")
    table.write_dataset("plain")
    with pytest.raises(PlanError, match=r"key=\[\] must name one column or more"):
        events(session, 10).materialize("t", key=[])
    with pytest.raises(PlanError, match="name=5 is not text"):
        events(session, 10).materialize(5, key="key")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="'plain' exists and is not a view"):
        events(session, 10).materialize("plain", key="key")
    with pytest.raises(NotFoundError, match="'plain' is a dataset and not a view"):
        session.view("plain")
    session.drop_dataset("plain")
