"""A process that holds one engine and does what the harness says.

One job: the pipe between harness and engine, both ends of it. The process is started fresh
(spawned), so an engine's imports and threads are its own; it ends with the harness.
"""

from __future__ import annotations

import gc
import multiprocessing
import statistics
import time
import traceback
from contextlib import suppress
from importlib import import_module
from itertools import takewhile
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

END_S = 30.0
"""How long an engine may take to end before it is killed."""


REASON_CHARS = 300
"""Of what an engine says when it fails; the rest is in its traceback."""


class WorkerError(Exception):
    """The engine raised, died, or did not answer in time: one sentence; and its traceback."""

    def __init__(self, reason: str, trace: str = "") -> None:
        super().__init__(reason)
        self.trace = trace


class Worker:
    """The harness's end."""

    def __init__(self, factory: str, timeout_s: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._factory, self._timeout_s = factory, timeout_s
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, factory), daemon=False)
        self._process.start()
        theirs.close()

    def call(self, command: str, *arguments: object) -> Any:
        """Send one command and wait for its answer."""
        try:
            self._pipe.send((command, arguments))
            if not self._pipe.poll(self._timeout_s):
                limit = f"{self._timeout_s:.0f} s"
                raise WorkerError(f"it did not {command} within {limit}")
            done, result = self._pipe.recv()
        except (EOFError, OSError):
            raise WorkerError(f"it died while asked to {command}{self._ending()}") from None
        if not done:
            raise WorkerError(*result)
        return result

    def _ending(self) -> str:
        self._process.join(timeout=1.0)
        code = self._process.exitcode
        return "" if code is None else f", with exit code {code}"

    def stop(self) -> None:
        """End the process."""
        self._pipe.close()  # the process ends when it finds its pipe closed
        self._process.join(timeout=END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


class Workers:
    """One process a factory, started when first wanted; a context manager that stops them all."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._known: dict[str, Worker] = {}

    def of(self, factory: str) -> Worker:
        """The process of an engine."""
        if factory not in self._known:
            self._known[factory] = Worker(factory, self._timeout_s)
        return self._known[factory]

    def close(self, factory: str, *, fresh: bool) -> None:
        """End a case; the process too where the next case needs a `fresh` one."""
        self.of(factory).call("close")
        if fresh:
            self.end(factory)

    def end(self, factory: str) -> None:
        """Stop it; who asks again gets a fresh one."""
        self._known.pop(factory).stop()

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        for factory in list(self._known):
            self.end(factory)


def serve(pipe: Connection, factory: str) -> None:
    """The engine's end: answer commands until the pipe closes."""
    with suppress(OSError):  # when memory runs out, an engine goes before anything else
        Path("/proc/self/oom_score_adj").write_text("1000")
    engine = _Engine(factory)
    try:
        while True:
            command, arguments = pipe.recv()
            try:
                pipe.send((True, getattr(engine, command)(*arguments)))
            except Exception as error:  # whatever an engine raises is told to the harness
                pipe.send((False, (reason(error), traceback.format_exc())))
    except (EOFError, OSError, KeyboardInterrupt):
        engine.close()


def reason(error: BaseException) -> str:
    """What went wrong in one line, without the calls that an engine's own message lists.

    >>> reason(RuntimeError("out of luck:\\n  no memory\\n  at line 3"))
    'RuntimeError: out of luck: no memory'
    """
    lines = [line.strip() for line in str(error).splitlines()]
    told = " ".join(line for line in takewhile(_is_no_call, lines) if line)
    if len(told) > REASON_CHARS:
        told = f"{told[:REASON_CHARS]}…"
    return f"{type(error).__name__}: {told}" if told else type(error).__name__


def _is_no_call(line: str) -> bool:
    return not line.startswith(("at ", "File ", "Traceback "))


class _Engine:
    def __init__(self, factory: str) -> None:
        self._factory = factory
        self._run: Any = None

    def prepare(self, case: object) -> None:
        module, _, function = self._factory.partition(":")
        self._run = getattr(import_module(module), function)(case)

    def time(self, round_s: float) -> float:
        """Seconds of the median call of as many as fill `round_s`, of one at least.

        What a run calls `beside` is done in `work` too, and is no part of the case: its time is
        taken off, but the round is full when `work` has filled it. A run with `taken_s` says itself
        how long a call took. The collector rests meanwhile.
        """
        work, clock = self._run.work, time.perf_counter
        beside, taken_s = (getattr(self._run, name, None) for name in ("beside", "taken_s"))
        seconds: list[float] = []
        filled = 0.0
        gc.collect()
        gc.disable()
        try:
            while not seconds or filled < round_s:
                start = clock()
                work()
                seconds.append(clock() - start if taken_s is None else taken_s())
                filled += seconds[-1]
                if beside is not None:
                    start = clock()
                    beside()
                    seconds[-1] -= clock() - start
        finally:
            gc.enable()
        return statistics.median(seconds)

    def answer(self) -> object:
        return self._run.answer()

    def close(self) -> None:
        if self._run is not None:
            self._run.close()
        self._run = None
