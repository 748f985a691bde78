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
from importlib import import_module
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any


class WorkerError(Exception):
    """The engine raised, died, or did not answer in time."""


class Worker:
    """The harness's end; a context manager that stops the process."""

    def __init__(self, factory: str, timeout_s: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._factory, self._timeout_s = factory, timeout_s
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, factory), daemon=False)
        self._process.start()
        theirs.close()

    def call(self, command: str, *arguments: object) -> Any:
        """Send one command and wait for its answer."""
        self._pipe.send((command, arguments))
        if not self._pipe.poll(self._timeout_s):
            raise WorkerError(f"{self._factory} did not {command} within {self._timeout_s:.0f} s")
        try:
            done, result = self._pipe.recv()
        except EOFError:
            raise WorkerError(f"{self._factory} died while asked to {command}") from None
        if not done:
            raise WorkerError(f"{self._factory} failed to {command}:\n{result}")
        return result

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._pipe.close()  # the process ends when it finds its pipe closed
        self._process.join(timeout=10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def serve(pipe: Connection, factory: str) -> None:
    """The engine's end: answer commands until the pipe closes."""
    engine = _Engine(factory)
    try:
        while True:
            command, arguments = pipe.recv()
            try:
                pipe.send((True, getattr(engine, command)(*arguments)))
            except Exception:  # whatever an engine raises is told to the harness
                pipe.send((False, traceback.format_exc()))
    except (EOFError, OSError, KeyboardInterrupt):
        engine.close()


class _Engine:
    def __init__(self, factory: str) -> None:
        self._factory = factory
        self._run: Any = None

    def prepare(self, case: object) -> None:
        module, _, function = self._factory.partition(":")
        self._run = getattr(import_module(module), function)(case)

    def time(self, calls: int) -> float:
        """Seconds of the median call of many; the collector rests meanwhile."""
        work, clock = self._run.work, time.perf_counter
        seconds = []
        gc.collect()
        gc.disable()
        try:
            for _ in range(calls):
                start = clock()
                work()
                seconds.append(clock() - start)
        finally:
            gc.enable()
        return statistics.median(seconds)

    def answer(self) -> object:
        return self._run.answer()

    def close(self) -> None:
        if self._run is not None:
            self._run.close()
        self._run = None
