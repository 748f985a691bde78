"""Bench rescale: pauses are read from what tasks say; wrong keys, counts and sums are told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench import rescale
from bench.harness import BenchError
from bench.rescaling.pauses import N_SPLITS, NO_ROW, VALUE_BYTES, Expected, Ints, Pause, Ticks

N_KEYS = 1_000
POSITIONS = np.array([500, 400, 0, 300])
SECOND = 1_000_000


def told(folder: Path, begun_s: int, *ticks: tuple[int, int, int]) -> None:
    """The file of a task that begins then: batches of one split, at a second, from row to row."""
    words = []
    for at_s, first, last in ticks:
        others = [NO_ROW] * (N_SPLITS - 1), [-1] * (N_SPLITS - 1)
        words += [at_s * SECOND, at_s * SECOND, last - first + 1]
        words += [first, *others[0], last, *others[1]]
    name = f"{begun_s}-{begun_s * SECOND * 1000}.ticks"
    (folder / name).write_bytes(np.array(words, np.int64).tobytes())


def found() -> dict[str, Ints]:
    """What an engine gives that has lost nothing."""
    n, total = Expected(N_KEYS).of(POSITIONS)
    key = np.random.default_rng(seed=3).permutation(N_KEYS)
    return {"k": key, "n": n[key], "s": total[key], "size": np.full(N_KEYS, VALUE_BYTES)}


def test_a_pause_ends_with_the_last_new_task_and_a_replay_where_the_old_were(
    tmp_path: Path,
) -> None:
    ticks = Ticks(tmp_path)
    told(tmp_path, 1, (2, 0, 9), (10, 10, 19))
    told(tmp_path, 13, (14, 5, 12))
    assert ticks.pause(11 * SECOND, 12 * SECOND, 2) is None, "one of two"
    told(tmp_path, 15, (16, 13, 18))
    assert ticks.pause(11 * SECOND, 12 * SECOND, 2) is None, "not where it was"
    told(tmp_path, 15, (16, 13, 18), (19, 19, 21))
    pause = ticks.pause(11 * SECOND, 12 * SECOND, 2)
    assert pause == Pause(pause_s=6.0, stop_s=2.0, restore_s=4.0, replay_s=3.0, replayed=15)
    assert ticks.positions().tolist() == [22, 0, 0, 0]
    assert ticks.n_rows() == 20 + 8 + 6 + 3


def test_what_is_right_passes() -> None:
    Expected(N_KEYS).check(found(), POSITIONS)
    n, total = Expected(N_KEYS).of(POSITIONS)
    assert n.sum() == N_KEYS + POSITIONS.sum()
    rows = sum(int((np.arange(end) * N_SPLITS + i).sum()) for i, end in enumerate(POSITIONS))
    assert total.sum() == N_KEYS * (N_KEYS - 1) // 2 + rows


@pytest.mark.parametrize("change", ["missing", "twice", "n", "s", "size"])
def test_what_is_wrong_is_told(change: str) -> None:
    wrong = found()
    if change in wrong:
        wrong[change] = wrong[change].copy()
        wrong[change][7] += 1
    else:
        keep = np.arange(1, N_KEYS) if change == "missing" else np.r_[0, np.arange(N_KEYS)]
        wrong = {name: values[keep] for name, values in wrong.items()}
    with pytest.raises(BenchError, match=r"missing|differ"):
        Expected(N_KEYS).check(wrong, POSITIONS)


@pytest.mark.soak  # it installs Flink
def test_engines_agree() -> None:
    case = rescale.cases(quick=True)[0]
    answers = []
    for run in (rescale.run(case), rescale.flink_run(case)):
        run.work()
        answers.append(run.answer())
        run.close()
    assert (answers[0].rows, answers[0].checksum) == (answers[1].rows, answers[1].checksum)
