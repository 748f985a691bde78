"""Streams through asynchronous calls, embedded and on two agents: event time, restores, errors."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fabric
from fabric import DataFrame, Session, count, streams
from fabric.errors import ExternalError, PlanError, UserError
from fabric.io.readers.generator import rows as made_rows
from fabric.plan.sources import GeneratorStream
from tests.support.compare import unlike
from tests.support.wait import wait_until

N_ROWS, N_KEYS = 1_200, 20
START = datetime(2026, 1, 1, tzinfo=UTC)
ANSWER = {"twice": "int64"}


@pytest.fixture(scope="module")
def lone() -> Iterator[Session]:
    with fabric.connect(parallelism=3) as opened:
        yield opened


@pytest.fixture(params=["embedded", "agents"])
def place(request: pytest.FixtureRequest, lone: Session) -> Session:
    found: Session = lone if request.param == "embedded" else request.getfixturevalue("session")
    return found


def source(session: Session, rows_per_s: int = 0) -> DataFrame:
    return streams.generator(
        n_rows=N_ROWS, n_keys=N_KEYS, n_splits=3, rows_per_s=rows_per_s, disorder="2 seconds",
        seed=3, start=START, session=session,
    ).with_watermark("ts", "2 seconds")  # fmt: skip


def expected() -> pa.Table:
    """The rows that the generator makes."""
    us = int(START.timestamp() * 1e6)
    made = GeneratorStream(0, N_ROWS, N_KEYS, 3, seed=3, start_us=us, disorder_us=2_000_000)
    return pa.concat_tables([made_rows(made, i, 0, N_ROWS // 3, us) for i in range(3)])


class Service:
    """Delays, reorders, and loses one answer in twenty, by the row and the attempt, which a new
    process counts anew; with `refuses` it refuses as many as well."""

    def __init__(self, longest_s: float = 0.004, *, refuses: bool = False) -> None:
        self._longest_s, self._refuses = longest_s, refuses
        self._attempts: dict[Any, int] = {}

    async def __call__(self, row: dict[str, Any]) -> dict[str, int]:
        key = row["split"], row["row"]
        self._attempts[key] = self._attempts.get(key, 0) + 1
        rng = Random(f"{key} {self._attempts[key]}")
        if rng.random() < 0.05:
            await asyncio.sleep(3600)
        await asyncio.sleep(rng.random() * self._longest_s)
        if self._refuses and rng.random() < 0.05:
            raise ConnectionResetError("the service has no time")
        return {"twice": 2 * row["row"]}


@pytest.mark.parametrize("ordered", [True, False])
def test_each_row_once_and_no_row_is_late(place: Session, ordered: bool) -> None:
    rows = source(place).named("made").map_async(
        Service(), ANSWER, keep=["split", "row", "key", "ts"], ordered=ordered, capacity=200,
        timeout="300 ms", retry=20, backoff="1 ms",
    )  # fmt: skip
    windows = rows.group_by("key").window("1 second", late="side")
    counted = windows.agg(n=count(), most=fabric.max("twice"))
    made = expected()
    with duckdb.connect() as duck:
        duck.execute("SET TimeZone = 'UTC'")
        duck.register("made", made)
        answer = duck.sql(
            "SELECT key, time_bucket(INTERVAL 1 second, ts) AS window_start, count(*) AS n, "
            "max(2 * row) AS most FROM made GROUP BY ALL"
        ).to_arrow_table()
    found = counted.to_arrow().drop_columns(["window_end"])
    assert unlike(found, answer.cast(found.schema)) == ""
    assert counted.side_output("late").count() == 0, "event time overtook a row"


def test_rows_of_a_split_keep_their_order(place: Session) -> None:
    rows = source(place).map_async(Service(), ANSWER, keep=["split"], timeout="300 ms", retry=20,
                                   backoff="1 ms")  # fmt: skip
    found = rows.to_arrow()
    for split in range(3):
        mine = found.filter(pc.field("split") == split)["twice"].to_pylist()
        assert mine == [2 * row for row in range(N_ROWS // 3)]


class Silent:
    """Answers nobody before there is a file."""

    def __init__(self, answers: Path) -> None:
        self._answers = answers

    async def __call__(self, row: dict[str, Any]) -> dict[str, int]:
        while not self._answers.exists():
            await asyncio.sleep(0.01)
        return {"twice": 2 * row["row"]}


def test_rows_without_an_answer_go_over_to_other_numbers_of_tasks(tmp_path: Path) -> None:
    """Checkpoints are complete all the while, though the step is full and nobody answers."""
    answers, out = tmp_path / "answers", tmp_path / "out"
    with fabric.connect(parallelism=4) as session:
        session.checkpoints(interval_s=0.1, folder=tmp_path / "checkpoints")
        rows = source(session).map_async(
            Silent(answers), ANSWER, keep=["split", "row"], capacity=50, timeout="1 hour"
        )
        job = rows.write_stream(out, parallelism=3)
        for parallelism in (2, 3, 1):
            wait_until(lambda: any(each.state == "published" for each in job.checkpoints()))
            job.rescale(parallelism, timeout_s=60)
        answers.touch()
        job.wait(120)
        written = session.read_parquet(out).to_arrow()
    assert unlike(written, doubled(expected())) == ""


def doubled(made: pa.Table) -> pa.Table:
    twice = pc.multiply(made["row"], 2).cast(pa.int64())
    return made.select(["split", "row"]).append_column("twice", twice)


class DiesOnce:
    """Ends its own process amid the requests of many rows, unless that has happened before."""

    def __init__(self, died: Path) -> None:
        self._died, self._n = died, 0

    async def __call__(self, row: dict[str, Any]) -> dict[str, int]:
        self._n += 1
        if self._n == 250:
            with suppress(FileExistsError), self._died.open("x"):
                os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(0.002)
        return {"twice": 2 * row["row"]}


def test_a_slot_that_dies_amid_requests_loses_and_doubles_nothing(
    session: Session, tmp_path: Path
) -> None:
    session.checkpoints(interval_s=0.1)
    out = tmp_path / "out"
    rows = source(session, rows_per_s=500).map_async(
        DiesOnce(tmp_path / "died"), ANSWER, keep=["split", "row"], ordered=False, capacity=100
    )
    rows.write_stream(out, parallelism=2).wait(120)
    assert (tmp_path / "died").exists()
    assert unlike(session.read_parquet(out).to_arrow(), doubled(expected())) == ""


async def odd(row: dict[str, Any]) -> dict[str, int]:
    if row["row"] % 100 == 7:
        raise ValueError(f"no price of {row['row']}")
    return {"twice": 2 * row["row"]}


def test_rows_that_fail_are_dead_letters(place: Session) -> None:
    rows = source(place).map_async(odd, ANSWER, keep=["row"], on_error="side").named("priced")
    assert rows.count() == N_ROWS - 12
    errors = rows.side_output("errors").to_arrow()
    assert sorted(errors["row"].to_pylist()) == sorted([*range(7, N_ROWS // 3, 100)] * 3)
    assert set(errors["error_node"].to_pylist()) == {"priced"}
    assert "odd raised ValueError: no price of" in errors["error"][0].as_py()


def test_a_failure_ends_the_stream_with_the_row(place: Session, told: Callable[..., None]) -> None:
    with pytest.raises(UserError) as caught:
        source(place).map_async(odd, ANSWER).named("priced").to_arrow()
    told(caught.value, "the function odd raised ValueError: no price of", "for the row {'split'",
         "'row': ", 'on_error="skip"', "node priced")  # fmt: skip


async def never(row: dict[str, Any]) -> None:
    await asyncio.sleep(3600)


def test_a_service_that_hangs_is_no_hang(place: Session, told: Callable[..., None]) -> None:
    table = place.read_arrow(pa.table({"a": [1, 2]}))
    with pytest.raises(ExternalError) as caught:
        table.map_async(never, ANSWER, timeout="50 ms", retry=1).named("asked").to_arrow()
    told(caught.value, "never did not answer within its timeout, for the row {'a': ", "node asked")


def test_what_streams_alone_have_is_refused_for_tables(lone: Session) -> None:
    table = lone.read_arrow(pa.table({"a": [1, 2]}))
    with pytest.raises(PlanError, match='on_error="side" is for streams'):
        table.map_async(odd, ANSWER, on_error="side").to_arrow()
