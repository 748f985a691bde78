"""How engines are compared: fairly, and only when they agree.

One job: run each case of a benchmark on each engine and give one `Line` an engine. Every engine
lives in a process of its own (`worker.py`), so none disturbs another's allocator, threads or
caches by its mere presence. Within a case the engines take turns, round by round, the order
turning too, so a slow moment of the machine hits all alike. A round runs an engine as often as
fills `round_s` and keeps the median call; the rate is that of the median round. Benchmarks of jobs
take a second and more, so that a call that is shorter finds its engine warm: what others did in
their turns has emptied caches, and idle servers give memory back meanwhile. Rows and checksum
of an engine's answer stand beside its rate. A peer that can't run a case, or whose answer differs
from ours, has no line there and fails the run at its end: the others are measured all the same.

A benchmark module gives `BENCHMARK = Benchmark(...)`. An engine is named by "module:function"; the
function takes the `Case` and gives a `Run`. Modules import engines inside those functions.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bench.worker import WorkerError, Workers

PARSING = "parsing_s"
"""A field of a peer's line: what it takes only to read its input; a ratio without it stands by."""


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

    # A run may also have `beside()`: what its `work` does besides what the case is about, such as
    # building what others have beforehand. Its time is taken off that of `work`.


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
    quick_round_s: float | None = None
    """None: as without quick."""
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
    rounds, round_s = benchmark.rounds, benchmark.round_s
    if quick:
        rounds = benchmark.quick_rounds
        round_s = round_s if benchmark.quick_round_s is None else benchmark.quick_round_s
    problems: list[str] = []
    with Workers(benchmark.timeout_s) as workers:
        for case in cases:
            turns = _Turns(benchmark, case, workers)
            yield from turns.lines(rounds, round_s)
            problems += [f"{benchmark.name}, {case.name}: {what}" for what in turns.problems]
    if problems:
        raise BenchError("\n".join(problems))


class _Turns:
    """One case: the engines take turns. `problems` tells of peers that failed or differ."""

    def __init__(self, benchmark: Benchmark, case: Case, workers: Workers) -> None:
        self._benchmark, self._case, self._workers = benchmark, case, workers
        self._engines = list(benchmark.engines(case))
        self.problems: list[str] = []

    def lines(self, rounds: int, round_s: float) -> list[Line]:
        """Measure, compare, and leave every engine closed."""
        seconds: dict[Engine, list[float]] = {engine: [] for engine in self._engines}
        for engine in list(self._engines):
            self._call(engine, "prepare", self._case)
        for engine in list(self._engines):
            self._call(engine, "time", 0.0)  # what is done once (imports, pages, caches)
        for turn in range(rounds):
            first = turn % len(self._engines)
            for engine in self._engines[first:] + self._engines[:first]:
                seconds[engine].append(self._call(engine, "time", round_s))
        answers = {engine: self._call(engine, "answer") for engine in list(self._engines)}
        for engine in list(self._engines):
            self._call(engine, "close")
        medians = {engine: statistics.median(seconds[engine]) for engine in self._engines}
        return self._compared(medians, answers)

    def _call(self, engine: Engine, command: str, *arguments: object) -> Any:
        """What the engine says; None when it failed, now or before, and is left out."""
        if engine not in self._engines:
            return None
        try:
            return self._workers.of(engine.factory).call(command, *arguments)
        except WorkerError as error:
            if engine.peer is None:
                where = f"{self._benchmark.name}, {self._case.name}"
                raise BenchError("\n".join([*self.problems, f"{where}: {error}"])) from error
            self.problems.append(f"{engine.peer} can't run it: {error}")
            self._engines.remove(engine)
            self._workers.end(engine.factory)
            return None

    def _compared(
        self, medians: Mapping[Engine, float], answers: Mapping[Engine, Answer]
    ) -> list[Line]:
        case = self._case
        ours = next(engine for engine in self._engines if engine.peer is None)
        own = answers[ours]
        lines = []
        for engine, seconds in medians.items():
            answer = answers[engine]
            if (answer.rows, answer.checksum) != (own.rows, own.checksum):
                self.problems.append(
                    f"{engine.peer} gives {answer.rows} rows, checksum {answer.checksum}; "
                    f"ours are {own.rows}, {own.checksum}"
                )
                continue
            ratio = None if engine.peer is None else seconds / medians[ours]
            extra = dict(answer.extra)
            if PARSING in extra:
                extra["ratio_without_parsing"] = (seconds - extra[PARSING]) / medians[ours]
            lines.append(
                Line(self._benchmark.name, case.name, answer.rows, case.n_bytes, seconds,
                     case.rows / seconds, engine.peer, ratio, answer.checksum, extra)
            )  # fmt: skip
        return sorted(lines, key=lambda line: line.peer is not None)
