"""An engine ready to shuffle: what the harness calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from bench.harness import Answer
from bench.shuffling.data import answer_of


class ShuffleRun:
    """`shuffle` moves every row and sums what arrived; `partitions` says what lies where."""

    def __init__(
        self,
        shuffle: Callable[[], object],
        partitions: Callable[[], Iterable[Mapping[str, Any]]],
        stack: ExitStack,
    ) -> None:
        self._shuffle, self._partitions, self._stack = shuffle, partitions, stack

    def work(self) -> object:
        """One shuffle."""
        return self._shuffle()

    def answer(self) -> Answer:
        """Rows, sums and keys of all partitions."""
        return answer_of(self._partitions())

    def close(self) -> None:
        """Stop the engine: the next case may want another number of workers."""
        self._stack.close()
