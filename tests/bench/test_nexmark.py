"""Nexmark's questions: Fabric, with a task a file, finds what DuckDB finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from bench.harness import Answer, Case
from bench.nexmark import (
    QUESTIONS,
    cases,
    data,
    duckdb_engine,
    fabric_engine,
    flink_engine,
    flink_sql,
)
from bench.nexmark.answers import answer_of

N_EVENTS = 40_000


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The bids lie in a folder of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("bids")))
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


@pytest.mark.soak  # it installs Flink
@pytest.mark.parametrize("question", QUESTIONS)
def test_flink_finds_the_same(question: str, oracle: dict[str, tuple[int, str]]) -> None:
    assert told(flink_engine.run(case(question)).answer()) == oracle[question]


def test_flink_is_asked_the_same_questions() -> None:
    assert list(flink_sql.FLINK) == list(flink_sql.READS) == list(QUESTIONS)


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


def test_bids_are_every_event_but_persons_and_auctions() -> None:
    tables = [
        pa.ipc.open_file(pa.memory_map(path)).read_all()
        for path in data.paths(N_EVENTS, 2, "arrow")
    ]
    assert sum(table.num_rows for table in tables) == data.n_bids(N_EVENTS)
    times = [table["dateTime"].cast(pa.int64()).to_pylist() for table in tables]
    assert all(one == sorted(one) for one in times)
    assert all(time % 1_000 == 0 for one in times for time in one)


def test_each_question_is_a_case() -> None:
    assert [case.name for case in cases(True)] == list(QUESTIONS)


def test_what_is_taken_back_does_not_count() -> None:
    changes = pa.record_batch({"row_kind": ["+I", "+I", "-U", "+U", "-D"], "n": [1, 5, 1, 2, 5]})
    stands = pa.record_batch({"n": [2]})
    assert told(answer_of("q17", [changes])) == told(answer_of("q17", [stands]))
