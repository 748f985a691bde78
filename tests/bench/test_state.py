"""The state benchmark: every engine of ours finds what DuckDB finds, and every store all rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench import state, stores
from bench.harness import Answer, Case, Engine, Run
from bench.windows.peers import duckdb_run

N_ROWS, N_KEYS, PACE_US = 200_000, 5_000, 40
"""Two windows of all keys, in batches of 65,536 rows."""


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Events lie in a folder of these tests; checkpoints are as often as by default afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("events")))
        patch.setenv("FABRIC_CHECKPOINT_INTERVAL_S", "1")
        yield


def windows(kind: str, state_memory: int = 50_000) -> Case:
    parameters = {
        "kind": kind, "keys": N_KEYS, "rows": N_ROWS, "pace_us": PACE_US,
        "state_memory": state_memory,
    }  # fmt: skip
    return Case(kind, N_ROWS, 0, parameters)


def told(run: Run) -> Answer:
    try:
        run.work()
        return run.answer()
    finally:
        run.close()


@pytest.mark.parametrize(
    ("engine", "kind"),
    [
        (engine, kind)
        for kind in ("tumbling", "global")
        for engine in ("memory", "arrow", "tonbo", "rocksdb")
    ],
)
def test_windows_are_the_oracles(engine: str, kind: str) -> None:
    found = told(getattr(state, f"{engine}_run")(windows(kind)))
    oracle = told(duckdb_run(windows(kind)))
    assert (found.rows, found.checksum) == (oracle.rows, oracle.checksum)
    assert found.rows == N_KEYS * (2 if kind == "tumbling" else 1)
    assert found.extra["rss_mb"] > 0
    assert ("evicted_m" in found.extra) == (engine in state.COLD)
    assert found.extra["written_mb"] > 0 or engine not in state.COLD


def test_groups_that_all_fit_into_memory_are_no_measure() -> None:
    with pytest.raises(state.BenchError, match="all groups fit into memory"):
        told(state.arrow_run(windows("tumbling", 1 << 30)))


@pytest.mark.parametrize("verb", stores.VERBS)
def test_stores_have_the_same_rows(verb: str) -> None:
    n = {"take": 1_000, "get": 3}.get(verb, 20_000)
    case = Case(verb, n, 0, {"verb": verb, "stored": 20_000})
    answers = [told(run_of(engine, case)) for engine in stores.engines(case)]
    assert {(answer.rows, answer.checksum) for answer in answers} == {(n, answers[0].checksum)}


def test_keys_that_were_taken_come_back_when_none_are_left() -> None:
    run = stores.arrow_run(Case("take", 1_000, 0, {"verb": "take", "stored": 3_500}))
    for _ in range(5):
        run.work()  # fails when it finds too few
    assert told(run).rows == 1_000


def run_of(engine: Engine, case: Case) -> Run:
    made: Run = getattr(stores, engine.factory.partition(":")[2])(case)
    return made


def test_each_case_names_the_engines_that_can_do_it() -> None:
    all_ = {
        case.name: [engine.peer for engine in state.engines(case)] for case in state.cases(True)
    }
    assert all_["tumbling"] == [None, "memory", "duckdb"]
    assert all_["tumbling small"] == [None, "memory", "tonbo", "rocksdb", "duckdb", "flink"]
    assert all_["global small"] == [None, "memory", "tonbo", "rocksdb", "duckdb"]
    assert all_["store get"] == [None, "tonbo", "tonbo alone", "pyarrow"]
    assert list(all_) == [
        "tumbling", "global", "tumbling small", "global small",
        *(f"store {verb}" for verb in stores.VERBS),
    ]  # fmt: skip
    whole = {
        case.name: [engine.peer for engine in state.engines(case)] for case in state.cases(False)
    }
    assert whole["sliding"] == [None, "memory", "duckdb"]
    assert whole["global"] == [None, "memory", "duckdb"]
    assert whole["tumbling small"] == all_["tumbling small"]
