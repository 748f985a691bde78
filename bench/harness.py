"""How engines are compared: fairly, and only when they agree.

One job: run each case of a benchmark on each engine and give one `Line` an engine. Every engine
lives in a process of its own (`worker.py`), so none disturbs another's allocator, threads or
caches by its mere presence. Within a case the engines take turns, round by round, the order
turning too, so a slow moment of the machine hits all alike. A round runs an engine as often as
fills `round_s` and keeps the median call; the rate is that of the median round. Rows and checksum
of an engine's answer stand beside its rate; when a peer's differ from ours the run fails.

A benchmark module gives `BENCHMARK = Benchmark(...)`. An engine is named by "module:function"; the
function takes the `Case` and gives a `Run`. Modules import engines inside those functions.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

from bench.worker import Worker, WorkerError


class BenchError(Exception):
    """An engine failed, or its answer differs from ours."""


@dataclass(frozen=True, slots=True)
class Case:
    """One line of a benchmark; `rows` and `n_bytes` are what one call of `work` takes in."""

    name: str
    rows: int
    n_bytes: int
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Engine:
    """`peer` is None for Fabric itself; `factory` is "module:function" from `Case` to `Run`."""

    peer: str | None
    factory: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine computed, to be compared; `extra` adds fields to its line (rss_mb)."""

    rows: int
    checksum: str
    extra: Mapping[str, Any] = field(default_factory=dict)


class Run(Protocol):
    """An engine ready for one case, in its own process."""

    def work(self) -> object:
        """Do it once; this is what is timed. The result is dropped at once."""

    def answer(self) -> Answer:
        """Check and sum up the result; not timed."""

    def close(self) -> None:
        """Give everything back."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: its cases (`cases(quick)`), the engines of a case, and how long to measure."""

    name: str
    about: str
    cases: Callable[[bool], Sequence[Case]]
    engines: Callable[[Case], Sequence[Engine]]
    rounds: int = 15
    quick_rounds: int = 5
    round_s: float = 0.05
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Line:
    """One engine's result in one case (design 5); `ratio` = peer seconds / our seconds."""

    bench: str
    case: str
    rows: int
    bytes: int
    seconds: float
    rate: float
    peer: str | None
    ratio: float | None
    checksum: str
    extra: Mapping[str, Any] = field(default_factory=dict)


def run(benchmark: Benchmark, *, quick: bool, only: str = "") -> Iterator[Line]:
    """Lines of a benchmark, ours before its peers' in each case."""
    known = benchmark.cases(quick)
    cases = [case for case in known if case.name == only]
    cases = cases or [case for case in known if only in case.name]
    if not cases:
        raise BenchError(f"no case of {benchmark.name} has {only!r} in its name")
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for case in cases:
            engines = benchmark.engines(case)
            for engine in engines:
                if engine.factory not in workers:
                    worker = Worker(engine.factory, benchmark.timeout_s)
                    workers[engine.factory] = stack.enter_context(worker)
            rounds = benchmark.quick_rounds if quick else benchmark.rounds
            try:
                yield from _case(benchmark, case, engines, workers, rounds)
            except WorkerError as error:
                raise BenchError(f"{benchmark.name}, {case.name}: {error}") from error


def _case(
    benchmark: Benchmark, case: Case, engines: Sequence[Engine], workers: Mapping[str, Worker],
    rounds: int,
) -> list[Line]:  # fmt: skip
    mine = [workers[engine.factory] for engine in engines]
    for worker in mine:
        worker.call("prepare", case)
    calls = {}
    for worker in mine:
        worker.call("time", 1)  # what is done once (imports, pages, caches) is not measured
        calls[worker] = max(1, math.ceil(benchmark.round_s / worker.call("time", 1)))
    seconds: dict[Worker, list[float]] = {worker: [] for worker in mine}
    for turn in range(rounds):
        first = turn % len(mine)
        for worker in mine[first:] + mine[:first]:
            seconds[worker].append(worker.call("time", calls[worker]))
    answers = [worker.call("answer") for worker in mine]
    for worker in mine:
        worker.call("close")
    medians = [statistics.median(seconds[worker]) for worker in mine]
    return _lines(benchmark.name, case, engines, medians, answers)


def _lines(
    name: str, case: Case, engines: Sequence[Engine], medians: Sequence[float],
    answers: Sequence[Answer],
) -> list[Line]:  # fmt: skip
    ours = engines.index(next(engine for engine in engines if engine.peer is None))
    lines = []
    for engine, seconds, answer in zip(engines, medians, answers, strict=True):
        if (answer.rows, answer.checksum) != (answers[ours].rows, answers[ours].checksum):
            raise BenchError(
                f"{name}, {case.name}: {engine.peer} gives {answer.rows} rows, checksum "
                f"{answer.checksum}; ours are {answers[ours].rows}, {answers[ours].checksum}"
            )
        ratio = None if engine.peer is None else seconds / medians[ours]
        lines.append(
            Line(name, case.name, answer.rows, case.n_bytes, seconds, case.rows / seconds,
                 engine.peer, ratio, answer.checksum, answer.extra)
        )  # fmt: skip
    return sorted(lines, key=lambda line: line.peer is not None)
