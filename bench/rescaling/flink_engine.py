"""Flink: a mini cluster of two task managers in a virtual machine of its own (`Rescale.java`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import BenchError, Case
from bench.nexmark import flink_home
from bench.rescaling.pauses import FEW_TASKS, FILL_S, MANY_TASKS, PATIENCE_S, Ints, Ticks


class FlinkStream:
    """The job in a virtual machine of its own, which answers each line with one."""

    def __init__(self, case: Case, folder: Path, stack: ExitStack) -> None:
        source = Path(__file__).with_name("Rescale.java")
        facts = (case.rows, case.parameters["rows_per_s"], case.parameters["interval_s"] * 1000)
        told = str(folder), *(str(int(fact)) for fact in facts)
        self._folder, ticks = folder, Ticks(folder / "ticks")
        self._flink = stack.enter_context(flink_home.program(source, *told))
        self._ask(f"start {FEW_TASKS}")
        self.until(lambda: ticks.n_rows() >= case.rows, "rows that fill", FILL_S)
        self.settle(0.0)

    def settle(self, beyond_s: float) -> None:
        """Wait for a checkpoint that begins from now on, and this long."""
        self._ask("settle")
        time.sleep(beyond_s)

    def rescale(self, n_tasks: int) -> int:
        """Have it; gives the moment (microseconds) at which the savepoint was there."""
        return int(self._ask(f"rescale {n_tasks}"))

    def facts(self) -> dict[str, Any]:
        """What the line says beside the pauses."""
        n_bytes, ms = self._ask("facts").split()
        return {"state_mb": round(int(n_bytes) / 1e6), "checkpoint_s": round(int(ms) / 1000, 2)}

    def end(self) -> dict[str, Ints]:
        """Stop it, and ask for each key once from there."""
        self._ask(f"end {MANY_TASKS}")
        parts = [np.fromfile(path, "<i8") for path in sorted(self._folder.glob("*.found"))]
        words = np.concatenate(parts).reshape(-1, 4)
        return {name: words[:, at] for at, name in enumerate(("k", "n", "s", "size"))}

    def until(self, reached: Callable[[], bool], what: str, limit_s: float = PATIENCE_S) -> None:
        """Wait; raises when the job ends or the time is over."""
        end_s = time.monotonic() + limit_s
        while not reached():
            self._ask("runs")
            if time.monotonic() > end_s:
                raise BenchError(f"no {what} within {limit_s:.0f} s")
            time.sleep(0.1)

    def _ask(self, line: str) -> str:
        """What it answers; raises what went wrong."""
        assert self._flink.stdin is not None
        assert self._flink.stdout is not None
        self._flink.stdin.write(f"{line}\n")
        self._flink.stdin.flush()
        answer = self._flink.stdout.readline().strip()
        if not answer.startswith("ok"):
            raise BenchError(f"Flink failed to {line}: {answer or 'its machine has died'}")
        return answer.removeprefix("ok").strip()
