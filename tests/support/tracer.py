"""Which functions of Fabric ran, in which order, and which of them had rows in their hands.

One job: `Tracer`, which appends a line to a file for each call of a step that it is asked for, and
for each call or return that passes rows; `calls_of` reads them. All processes append to one file,
so the order of its lines is that of cause and effect, across threads and processes and without a
clock. Agents and coordinators are traced when they are forked with the variable `TRACE`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from inspect import CO_VARARGS, CO_VARKEYWORDS
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pyarrow as pa

from fabric._cython.shuffle.ring.ring import Rows
from fabric._cython.shuffle.store.store import LocalRows
from fabric.agent.inputs import Gathered
from fabric.operators.fragment import arrow_dataset
from tests.support.forked import TRACE

ROOT = Path(__file__).resolve().parent.parent.parent
OURS = tuple(str(ROOT / folder) + os.sep for folder in ("fabric", "clients", "coordinator"))
ROWS = (pa.RecordBatch, pa.Table, Rows, LocalRows, Gathered)
"""Rows, and what holds them on an agent."""
CONTAINERS = 2
"""How deep in lists, tuples and dicts rows are looked for, in the first two items of a list."""


Step = tuple[str, str]
"""Name and file of a function."""


class Call(NamedTuple):
    """A line of a trace: a step that was called, or a function that was given or gave rows."""

    rows: bool
    step: Step


def holds_rows(value: object, depth: int = CONTAINERS) -> bool:
    """Whether a value is rows, or a container of them.

    >>> batch = pa.record_batch({"a": [1]})
    >>> holds_rows(batch), holds_rows([(0, batch)]), holds_rows(batch.schema)
    (True, True, False)
    """
    if isinstance(value, ROWS):
        return True
    if depth and isinstance(value, (list, tuple)):
        return any(holds_rows(one, depth - 1) for one in value[:2])
    if depth and isinstance(value, dict):
        return any(holds_rows(one, depth - 1) for one in value.values())
    return False


class Tracer:
    """Appends to the file `path` what this process calls; every call of one of `steps` counts."""

    def __init__(self, path: Path, steps: Collection[Step]) -> None:
        self.path, self._steps = path, frozenset(steps)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._known: dict[CodeType, Step | None] = {}

    @property
    def environ(self) -> dict[str, str]:
        """The variable with which a process is forked that is to be traced the same way."""
        return {TRACE: json.dumps([str(self.path), sorted(self._steps)])}

    def install(self) -> None:
        """Trace this process to its end, from threads that start now to those of DataFusion."""
        threading.setprofile(self._look)
        sys.setprofile(self._look)
        scanner: Any = arrow_dataset._Scanner  # what threads that Python did not start call
        scanner.to_batches = _entered(scanner.to_batches, partial(sys.setprofile, self._look))

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Trace this thread and those that start in the block; none of DataFusion."""
        threading.setprofile(self._look)
        sys.setprofile(self._look)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _look(self, frame: FrameType, event: str, value: object) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if code not in self._known:
            self._known[code] = _step_of(code)
        if (step := self._known[code]) is None:
            return
        called = event == "call"
        rows = any(map(holds_rows, _arguments(frame))) if called else holds_rows(value)
        if rows or (called and step in self._steps):
            os.write(self._file, (json.dumps([rows, step]) + "\n").encode())


def calls_of(path: Path, begin: int = 0) -> list[Call]:
    """What traced processes have written into a file from byte `begin` on."""
    whole, _, _ = path.read_bytes()[begin:].rpartition(b"\n")  # a line may be on its way
    lines = map(json.loads, whole.splitlines())
    return [Call(rows, (name, file)) for rows, (name, file) in lines]


def install() -> None:
    """Trace this process as its variable says."""
    path, steps = json.loads(os.environ[TRACE])
    Tracer(Path(path), [(name, file) for name, file in steps]).install()


def _step_of(code: CodeType) -> Step | None:
    path = os.path.realpath(code.co_filename)
    if not path.startswith(OURS):
        return None
    return code.co_qualname, path.removeprefix(f"{ROOT}{os.sep}")


def _arguments(frame: FrameType) -> list[object]:
    """What a frame was called with; of a generator that goes on: with which it began."""
    code, values = frame.f_code, frame.f_locals
    n = code.co_argcount + code.co_kwonlyargcount
    n += sum(bool(code.co_flags & flag) for flag in (CO_VARARGS, CO_VARKEYWORDS))
    return [values[name] for name in code.co_varnames[:n] if name in values]


def _entered(function: Callable[..., Iterator[Any]], enter: Callable[[], object]) -> Any:
    """An iterator's function that calls `enter` before each item is asked for."""

    def iterate(*arguments: Any) -> Iterator[Any]:
        items = function(*arguments)
        while True:
            enter()
            try:
                item = next(items)
            except StopIteration:
                return
            yield item

    return iterate
