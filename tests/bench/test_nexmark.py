"""Nexmark's questions: Fabric, with a task a file, finds what DuckDB finds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fabric
from bench.harness import Answer, Case
from bench.nexmark import (
    N_EVENTS_QUICK,
    QUESTIONS,
    cases,
    data,
    duckdb_engine,
    fabric_engine,
    flink_engine,
    flink_sql,
)
from bench.nexmark.answers import answer_of
from bench.nexmark.sql import TABLES
from fabric.io.readers.nexmark import HOT_CHANNELS, N_CHANNELS, pools_of
from tests.support.local import local_fabric
from tests.support.sampled import SOAK

N_EVENTS = 40_000
ADDRESS = r"https://www[.]nexmark[.]com(/[a-z]{3,5}){3}/item[.]htm[?]query=1(&channel_id=[0-9]+)?"


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The tables lie in a folder of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("nexmark")))
        data.folder(N_EVENTS, 2)
        yield


def case(question: str) -> Case:
    return Case(question, 0, 0, {"events": N_EVENTS, "checked": N_EVENTS, "cores": 2})


def told(answer: Answer) -> tuple[int, str]:
    return answer.rows, answer.checksum


@pytest.fixture(scope="module")
def oracle() -> dict[str, tuple[int, str]]:
    """What DuckDB says."""
    found = {}
    for question in QUESTIONS:
        run = duckdb_engine.run(case(question))
        found[question] = told(run.answer())
        run.close()
    return found


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_answer_is_the_oracles(question: str, oracle: dict[str, tuple[int, str]]) -> None:
    ours = fabric_engine.run(case(question))
    try:
        assert told(ours.answer()) == oracle[question]
        ours.work()  # the same to nowhere
    finally:
        ours.close()


ON_AGENTS = ("q4", "q8", "q10", "q13", "q14", "q20")
"""A join each of another kind, files, and a function of ours."""


@pytest.fixture(scope="module")
def agents() -> Iterator[fabric.Session]:
    """A session of two agents."""
    with (
        local_fabric(2, slots=4) as local,
        fabric.connect(f"fabric://{local.address}", token=local.token, parallelism=2) as session,
    ):
        yield session


@pytest.mark.parametrize("question", QUESTIONS if SOAK else ON_AGENTS)
def test_agents_find_the_same(
    question: str, agents: fabric.Session, oracle: dict[str, tuple[int, str]]
) -> None:
    ours = fabric_engine.FabricRun(case(question), agents, lambda: 0.0, ExitStack())
    assert told(ours.answer()) == oracle[question]


@pytest.mark.soak  # it installs Flink
@pytest.mark.parametrize("question", QUESTIONS)
def test_flink_finds_the_same(question: str, oracle: dict[str, tuple[int, str]]) -> None:
    assert told(flink_engine.run(case(question)).answer()) == oracle[question]


def test_flink_is_asked_the_same_questions_of_the_same_tables() -> None:
    assert list(flink_sql.FLINK) == list(flink_sql.READS) == list(QUESTIONS)
    assert {name: set(read) for name, read in flink_sql.READS.items()} == {
        name: set(tables) for name, tables in TABLES.items()
    }


def test_changes_of_flink_are_read(tmp_path: Path) -> None:
    row = {"auction": 1, "day": "2020-09-13", "avg_price": 2, "dateTime": "2020-09-13T12:26:40.004"}
    written = tmp_path / "part-0"
    lines = [{"before": None, "after": row, "op": "c"}, {"before": row, "after": None, "op": "d"}]
    written.write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = flink_engine.changes(written)
    assert table["row_kind"].to_pylist() == ["-U", "+U"]
    assert table["avg_price"].to_pylist() == [2.0, 2.0]
    assert table["dateTime"][0].as_py() == datetime(2020, 9, 13, 12, 26, 40, 4_000)
    assert answer_of("q17", table.to_batches()).rows == 0


@pytest.mark.parametrize("table", data.TABLES)
def test_files_of_a_table_hold_its_events_in_order(table: str) -> None:
    tables = [
        pa.ipc.open_file(pa.memory_map(path)).read_all()
        for path in data.paths(N_EVENTS, 2, table, "arrow")
    ]
    assert sum(rows.num_rows for rows in tables) == data.n_rows(table, N_EVENTS)
    times = [rows["dateTime"].cast(pa.int64()).to_pylist() for rows in tables]
    assert all(one == sorted(one) for one in times)
    assert all(time % 1_000 == 0 for one in times for time in one)
    rows = pa.concat_tables(tables).sort_by("dateTime")
    same = pa.concat_tables(map(pq.read_table, data.paths(N_EVENTS, 2, table, "parquet")))
    assert rows.equals(same.sort_by("dateTime").cast(rows.schema))


def test_addresses_of_bids_have_three_folders_and_mostly_a_number() -> None:
    texts: dict[str, pa.Array] = pools_of(0)["bid"]
    pairs = dict(zip(texts["channel"].to_pylist()[1:], texts["url"].to_pylist()[1:], strict=True))
    assert all(re.fullmatch(ADDRESS, url) for url in pairs.values())
    hot = [pairs[channel] for channel in HOT_CHANNELS]
    assert not any("channel_id" in url for url in hot)
    numbers = [url.partition("&channel_id=")[2] for url in pairs.values() if url not in hot]
    assert sum(map(bool, numbers)) == len(set(numbers) - {""}) == N_CHANNELS * 9 // 10


def test_an_auction_is_over_in_time() -> None:
    for path in data.paths(N_EVENTS, 2, "auction", "arrow"):
        rows = pa.ipc.open_file(pa.memory_map(path)).read_all()
        open_us = pc.subtract(rows["expires"].cast("int64"), rows["dateTime"].cast("int64"))
        assert 3_000_000 < pc.max(open_us).as_py() < data.OPEN_S * 1_000_000


def test_each_question_is_a_case() -> None:
    found = {case.name: case for case in cases(True)}
    assert list(found) == list(QUESTIONS) == [f"q{i}" for i in range(23)]
    assert found["q3"].rows == found["q8"].rows == N_EVENTS_QUICK * 4 // 50
    assert found["q9"].rows == N_EVENTS_QUICK * 49 // 50


def test_what_is_taken_back_does_not_count() -> None:
    changes = pa.record_batch({"row_kind": ["+I", "+I", "-U", "+U", "-D"], "n": [1, 5, 1, 2, 5]})
    stands = pa.record_batch({"n": [2]})
    assert told(answer_of("q17", [changes])) == told(answer_of("q17", [stands]))
