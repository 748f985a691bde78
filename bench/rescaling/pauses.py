"""What the engines of bench `rescale` share: what a pause is, and which rows are right.

One job: the files in which tasks say what they worked on. `Ticks` finds pauses in them and how far
the stream came; `Expected` is what numpy makes of the rows up to there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.harness import BenchError

N_SPLITS, VALUE_BYTES, SEED = 4, 100, 5
FEW_TASKS, MANY_TASKS = 2, 4
FILL_S, PATIENCE_S = 900.0, 180.0
NO_ROW = 1 << 62
TICK = 3 + 2 * N_SPLITS
"""Words of a tick: microseconds, from and to; rows; the first and the last row of each split."""
Ints = NDArray[np.int64]
_US = 1e6


@dataclass(frozen=True, slots=True)
class Pause:
    """One change of the number of tasks; seconds."""

    pause_s: float
    stop_s: float
    restore_s: float
    replay_s: float
    replayed: int


class Ticks:
    """What tasks say of the batches they work on: a file each, named by when it was begun."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def pause(self, asked_us: int, left_us: int, n_tasks: int) -> Pause | None:
        """None while the new tasks do not all work, or are not where the old ones were."""
        files = self._files()
        before = [words for begun_us, words in files if begun_us < asked_us]
        after = [words for begun_us, words in files if begun_us >= asked_us and len(words)]
        if len(after) < n_tasks:
            return None
        old, new = np.concatenate(before), np.concatenate(after)
        stood_us, flows_us = old[:, 1].max(), max(words[0, 0] for words in after)
        reached = old[:, -N_SPLITS:].max(axis=0)
        new = new[np.argsort(new[:, 1])]
        caught = np.maximum.accumulate(new[:, -N_SPLITS:]) >= reached
        if not caught[-1].all():
            return None
        caught_us = new[caught.all(axis=1).argmax(), 1]
        first = np.minimum(new[:, 3 : 3 + N_SPLITS].min(axis=0), reached + 1)
        parts_us = left_us - stood_us, flows_us - left_us, max(0, caught_us - flows_us)
        stop_s, restore_s, replay_s = (float(us) / _US for us in parts_us)
        replayed = int((reached + 1 - first).sum())
        return Pause(stop_s + restore_s, stop_s, restore_s, replay_s, replayed)

    def positions(self) -> Ints:
        """How many rows of each split were read in the end."""
        found = np.concatenate([words for _, words in self._files()])
        last: Ints = found[:, -N_SPLITS:].max(axis=0)
        return last + 1

    def n_rows(self) -> int:
        """How many rows all tasks have worked on, some of them again."""
        return sum(int(words[:, 2].sum()) for _, words in self._files())

    def _files(self) -> list[tuple[int, Ints]]:
        found = []
        for path in sorted(self._folder.glob("*.ticks")):
            data = path.read_bytes()
            whole = len(data) // (8 * TICK)
            words = np.frombuffer(data, np.int64, whole * TICK).reshape(-1, TICK)
            found.append((int(path.stem.split("-")[1]) // 1000, words))
        return found


class Expected:
    """Counts and sums by key, as numpy makes them."""

    def __init__(self, n_keys: int) -> None:
        self.n_keys = n_keys

    def check(self, found: Mapping[str, Ints], positions: Ints) -> None:
        """Raise unless each key is there once with the rows up to these positions, and a value."""
        n, total = self.of(positions)
        if not np.array_equal(np.sort(found["k"]), np.arange(self.n_keys)):
            missing = self.n_keys - len(np.unique(found["k"]))
            raise BenchError(f"{missing} keys are missing of {len(found['k'])} that came")
        wrong = (found["n"] != n[found["k"]]) | (found["s"] != total[found["k"]])
        wrong |= found["size"] != VALUE_BYTES
        if wrong.any():
            key = int(found["k"][wrong][0])
            told = {name: int(values[wrong][0]) for name, values in found.items()}
            raise BenchError(f"{wrong.sum()} keys differ: {told}; n {n[key]}, s {total[key]}")

    def of(self, positions: Ints) -> tuple[Ints, Ints]:
        """Rows of each key, and the sum of their numbers."""
        from fabric.io.readers.generator import rows
        from fabric.plan.sources import GeneratorStream

        source = GeneratorStream(n_keys=self.n_keys, n_splits=N_SPLITS, seed=SEED)
        n, total = np.ones(self.n_keys, np.int64), np.arange(self.n_keys)
        for split, end in enumerate(positions.tolist()):
            made = rows(source, split, 0, end, 1)
            key, row = made["key"].to_numpy(), made["row"].to_numpy()
            np.add.at(n, key, 1)
            np.add.at(total, key, row * N_SPLITS + split)
        return n, total
