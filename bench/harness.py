"""How engines are compared: fairly, and only when they agree.

One job: run each case of a benchmark on each engine and give one `Line` an engine. Every engine
lives in a process of its own (`worker.py`), so none disturbs another's allocator, threads or
caches by its mere presence. Within a case the engines take turns, round by round, the order
turning too, so a slow moment of the machine hits all alike. A round runs an engine as often as
fills `round_s` and keeps the median call; the rate is that of the median round. Benchmarks of jobs
take a second and more, so that a call that is shorter finds its engine warm: what others did in
their turns has emptied caches, and idle servers give memory back meanwhile. Rows and checksum
of an engine's answer stand beside its rate. An engine that can't run a case, or whose answer
differs from ours, has a `Failure` with the reason in place of its line; the others are measured all
the same. A peer that can't run a case is no fault; a different answer is one, and so is a failure
of ours, which leaves its case without figures.

A benchmark module gives `BENCHMARK = Benchmark(...)`. An engine is named by "module:function"; the
function takes the `Case` and gives a `Run`. Modules import engines inside those functions.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from bench.worker import WorkerError, Workers

PARSING = "parsing_s"
"""A field of a peer's line: what it takes only to read its input; a ratio without it stands by."""


class BenchError(Exception):
    """There is nothing to measure, or what was measured does not count."""


@dataclass(frozen=True, slots=True)
class Case:
    """One line of a benchmark; `rows` and `n_bytes` are what one call of `work` takes in."""

    name: str
    rows: int
    n_bytes: int
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Engine:
    """`peer` is None for Fabric itself; `factory` is "module:function" from `Case` to `Run`.

    An engine with settings that last as long as its process takes a `fresh` process for each case.
    """

    peer: str | None
    factory: str
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine computed, to be compared; `extra` adds fields to its line (rss_mb).

    An engine that is too slow for all rows of a case says how many it has `taken` in; `parts` of
    our answer are rows and checksum of what is right for so many.
    """

    rows: int
    checksum: str
    extra: Mapping[str, Any] = field(default_factory=dict)
    taken: int = 0
    parts: Mapping[int, tuple[int, str]] = field(default_factory=dict)


class Run(Protocol):
    """An engine ready for one case, in its own process."""

    def work(self) -> object:
        """Do it once; this is what is timed. The result is dropped at once."""

    def answer(self) -> Answer:
        """Check and sum up the result; not timed."""

    def close(self) -> None:
        """Give everything back."""

    # A run may also have `beside()`: what its `work` does besides what the case is about, such as
    # building what others have beforehand. Its time is taken off that of `work`. And `taken_s()`:
    # how long the last `work` took by its own account, where an engine has to start anew each time.


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
    """One engine's result in one case; `ratio` = peer seconds / our seconds."""

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


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an engine has no line in a case; `is_fault` fails the run."""

    bench: str
    case: str
    peer: str | None
    error: str
    is_fault: bool
    trace: str = ""


def run(benchmark: Benchmark, *, quick: bool, only: str = "") -> Iterator[Line | Failure]:
    """Lines of a benchmark, ours before its peers' in each case, then who failed there."""
    known = benchmark.cases(quick)
    cases = [case for case in known if case.name == only]
    cases = cases or [case for case in known if only in case.name]
    if not cases:
        raise BenchError(f"no case of {benchmark.name} has {only!r} in its name")
    rounds, round_s = benchmark.rounds, benchmark.round_s
    if quick:
        rounds = benchmark.quick_rounds
        round_s = round_s if benchmark.quick_round_s is None else benchmark.quick_round_s
    with Workers(benchmark.timeout_s) as workers:
        for case in cases:
            yield from _Turns(benchmark, case, workers).lines(rounds, round_s)


class _OursFailed(Exception):
    """There is nothing to compare with: the case is over."""


class _Turns:
    """One case: the engines take turns."""

    def __init__(self, benchmark: Benchmark, case: Case, workers: Workers) -> None:
        self._benchmark, self._case, self._workers = benchmark, case, workers
        self._engines = list(benchmark.engines(case))
        self._failures: list[Failure] = []

    def lines(self, rounds: int, round_s: float) -> list[Line | Failure]:
        """Measure, compare, and leave every engine closed."""
        lines: list[Line] = []
        try:
            medians = self._measured(rounds, round_s)
            answers = {engine: self._call(engine, "answer") for engine in list(self._engines)}
            lines = self._compared(medians, answers)
        except _OursFailed:
            pass
        self._close()
        return [*lines, *self._failures]

    def _measured(self, rounds: int, round_s: float) -> dict[Engine, float]:
        seconds: dict[Engine, list[float]] = {engine: [] for engine in self._engines}
        for engine in list(self._engines):
            self._call(engine, "prepare", self._case)
        for engine in list(self._engines):
            self._call(engine, "time", 0.0)  # what is done once (imports, pages, caches)
        for turn in range(rounds):
            first = turn % len(self._engines)
            for engine in self._engines[first:] + self._engines[:first]:
                seconds[engine].append(self._call(engine, "time", round_s))
        return {engine: statistics.median(seconds[engine]) for engine in self._engines}

    def _call(self, engine: Engine, command: str, *arguments: object) -> Any:
        """What the engine says; None when it failed and is left out."""
        try:
            return self._workers.of(engine.factory).call(command, *arguments)
        except WorkerError as error:
            self._drop(engine, error)
            return None

    def _close(self) -> None:
        for engine in list(self._engines):
            try:
                self._workers.close(engine.factory, fresh=engine.fresh)
            except WorkerError as error:
                with suppress(_OursFailed):
                    self._drop(engine, error)

    def _drop(self, engine: Engine, error: WorkerError) -> None:
        self._fail(engine, str(error), error.trace, is_fault=engine.peer is None)
        self._engines.remove(engine)
        self._workers.end(engine.factory)
        if engine.peer is None:
            raise _OursFailed

    def _fail(self, engine: Engine, why: str, trace: str = "", *, is_fault: bool) -> None:
        bench, case = self._benchmark.name, self._case.name
        self._failures.append(Failure(bench, case, engine.peer, why, is_fault, trace))

    def _compared(
        self, medians: Mapping[Engine, float], answers: Mapping[Engine, Answer]
    ) -> list[Line]:
        case = self._case
        ours = next(engine for engine in self._engines if engine.peer is None)
        own = answers[ours]
        lines = []
        for engine in self._engines:
            answer, seconds = answers[engine], medians[engine]
            taken = answer.taken or case.rows
            right = own.parts[answer.taken] if answer.taken else (own.rows, own.checksum)
            if (answer.rows, answer.checksum) != right:
                why = (
                    f"it gives {answer.rows} rows, checksum {answer.checksum}; "
                    f"ours are {right[0]}, {right[1]}"
                )
                self._fail(engine, why, is_fault=True)
                continue
            share = taken / case.rows
            ratio = None if engine.peer is None else seconds / share / medians[ours]
            extra = dict(answer.extra)
            if PARSING in extra:
                extra["ratio_without_parsing"] = (seconds - extra[PARSING]) / medians[ours]
            lines.append(
                Line(self._benchmark.name, case.name, answer.rows, round(case.n_bytes * share),
                     seconds, taken / seconds, engine.peer, ratio, answer.checksum, extra)
            )  # fmt: skip
        return sorted(lines, key=lambda line: line.peer is not None)
