"""Joins of two streams by interval: Fabric, with a task a file, finds the pairs DuckDB finds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa
import pytest

import fabric
from bench.harness import Answer, Case
from bench.joins import KINDS, cases, data, flink, runs
from tests.support.local import local_fabric

N_ROWS = 40_000


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Both sides lie in a folder of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("joins")))
        yield


def case(name: str) -> Case:
    (found,) = (case for case in cases(True) if case.name == name)
    few = {"rows": N_ROWS, "keys": found.parameters["keys"] // 10, "cores": 2}
    return replace(found, rows=2 * N_ROWS, parameters={**found.parameters, **few})


def told(answer: Answer) -> tuple[int, str]:
    return answer.rows, answer.checksum


def right(name: str) -> tuple[int, str]:
    """What DuckDB says."""
    run = runs.duckdb_run(case(name))
    try:
        return told(run.answer())
    finally:
        run.close()


@pytest.mark.parametrize("name", KINDS)
def test_the_pairs_are_the_oracles(name: str) -> None:
    ours = runs.run(case(name))
    try:
        ours.work()
        answer = ours.answer()
        assert told(answer) == right(name)
        assert answer.rows > N_ROWS / 10
        assert answer.extra["state"] == "memory"
    finally:
        ours.close()


def test_agents_find_the_same() -> None:
    with (
        local_fabric(2, slots=4) as local,
        fabric.connect(f"fabric://{local.address}", token=local.token, parallelism=2) as session,
    ):
        (name, *_) = KINDS
        ours = runs.JoinRun(case(name), session, lambda: 0.0, ExitStack())
        assert told(data.answer_of(ours.batches())) == right(name)


@pytest.mark.soak  # it installs Flink
@pytest.mark.parametrize("name", KINDS)
def test_flink_finds_the_same(name: str) -> None:
    assert told(flink.run(case(name)).answer()) == right(name)


def test_both_sides_run_through_time_in_order() -> None:
    asked = data.Asked.of(case("inner 1M keys"))
    for side, (_, number, time) in data.SIDES.items():
        tables = [
            pa.ipc.open_file(pa.memory_map(path)).read_all()
            for path in data.paths(asked, side, "arrow")
        ]
        assert all(table[time].to_pylist() == sorted(table[time].to_pylist()) for table in tables)
        numbers = pa.concat_tables(tables)[number].to_pylist()
        assert sorted(numbers) == list(range(N_ROWS))
