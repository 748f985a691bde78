"""Bench latency: its rows are told apart and checked; Flink makes the same ones."""

from __future__ import annotations

import numpy as np
import pytest

from bench import latency
from bench.harness import BenchError
from bench.latencies import flink_engine
from bench.latencies.rows import COLUMNS, N_KEYS, RATE, Ints, answer_of, n_rows_of

SECONDS = 0.1


def rows(late_us: int = 500) -> dict[str, Ints]:
    """All rows of a job of one split, in turn by key, each seen so late."""
    row = np.arange(n_rows_of(SECONDS))
    ts = row * 1_000_000 // RATE
    return {
        "split": np.zeros_like(row), "row": row, "key": row % N_KEYS, "ts": ts,
        "n": row // N_KEYS + 1, "seen": ts + late_us,
    }  # fmt: skip


def test_rows_behind_the_warm_up_count() -> None:
    found = rows()
    found["seen"][: RATE // 2] += 1_000_000
    answer = answer_of(found, 1, SECONDS, {"more": 1})
    assert answer.rows == RATE * SECONDS
    assert answer.extra == {"p50_ms": 0.5, "p99_ms": 0.5, "max_ms": 0.5, "more": 1}


@pytest.mark.parametrize("change", ["missing", "twice", "miscounted", "too few"])
def test_each_row_comes_once(change: str) -> None:
    found, at = rows(), RATE + 5
    if change == "miscounted":
        found["n"][at] += 1
    else:
        keep = {
            "missing": np.delete(np.arange(len(found["row"])), at),
            "twice": np.insert(np.arange(len(found["row"])), at, at),
            "too few": np.arange(at),
        }[change]
        found = {name: values[keep] for name, values in found.items()}
    with pytest.raises(BenchError):
        answer_of(found, 1, SECONDS, {})


def test_a_row_is_seen_with_its_last_byte() -> None:
    words = np.arange(3 * len(COLUMNS), dtype="<i8")
    whole = words.tobytes()
    seen = flink_engine._Seen([whole[:40], whole[40:70], whole[70:]], [1, 2, 3])
    assert seen.at_us.tolist() == [1, 3, 3]
    assert seen.words.tolist() == words.reshape(3, -1).tolist()


@pytest.mark.soak  # it installs Flink
def test_flink_makes_the_same_rows() -> None:
    case = latency.cases(quick=True)[1]
    answers = []
    for run in (latency.run(case), latency.default_run(case), flink_engine.at_once_run(case)):
        run.work()
        run.work()
        answers.append(run.answer())
        run.close()
    assert answers[0].checksum == answers[1].checksum
