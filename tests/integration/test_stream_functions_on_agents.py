"""What a function of a stream does to its process is its job's business: the agent goes on.

A real agent with a lease of 10 s: it stays attached, serves others, and keeps no process.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fabric
from fabric import Process, streams
from fabric.errors import ExpressionError, ExternalError, FabricError, UserError
from tests.support.local import SOON, LocalFabric
from tests.support.lone import lone_agent, unharmed
from tests.support.sampled import SOAK
from tests.support.wait import wait_until

DEADLINE_S = 120.0
HELD_S = 30 if SOAK else 13
"""Longer than the lease."""


@pytest.fixture(scope="module")
def one() -> Iterator[LocalFabric]:
    environ = {**SOON, "FABRIC_AGENT_BATCH_S": "60", "FABRIC_COORDINATOR_RETRY_S": "0.05"}
    with lone_agent(6, environ) as running:
        yield running


@pytest.fixture
def session(one: LocalFabric) -> Iterator[fabric.Session]:
    with fabric.connect(f"fabric://{one.address}", token=one.token) as opened:
        yield opened


@pytest.fixture(autouse=True)
def kept(one: LocalFabric) -> Iterator[None]:
    """The agent is that of before, and was never away."""
    with unharmed(one):
        yield


def processed(
    session: fabric.Session, call: Callable[[Any], object], n_rows: int = 200, **more: Any
) -> fabric.DataFrame:
    """A stream of `n_rows` rows of which each key's are counted, after `call(rows)`."""

    class Counting(Process):
        def on_rows(self, ctx: Any, key: int, rows: Any) -> dict[str, int] | None:
            found = call(rows)
            if found is not None:
                return found
            state = ctx.state("n")
            state.put((state.get() or 0) + rows.num_rows)
            return {"key": key, "n": rows.num_rows}

    made = streams.generator(n_rows=n_rows, n_splits=1, n_keys=5, session=session)
    return made.process(
        Counting(),
        keys="key",
        schema={"key": "int64", "n": "int64"},
        state={"n": streams.value_state("int64")},
        **more,
    )


def failure(frame: fabric.DataFrame) -> FabricError:
    with pytest.raises(FabricError) as raised:
        frame.collect()
    return raised.value


def n_counted(frame: fabric.DataFrame) -> int:
    return sum(frame.collect()["n"].to_pylist())


def raising(error: BaseException) -> Callable[[Any], object]:
    def call(rows: Any) -> object:
        raise error

    return call


def deep(rows: Any) -> object:
    return deep(rows)


def lengthy(rows: Any) -> object:
    raise ValueError("x" * 50_000_000)


FAILS: dict[str, tuple[Callable[[Any], object], str]] = {
    "raises": (raising(ValueError("no")), "raised ValueError: no"),
    "SystemExit": (lambda rows: sys.exit(3), "raised SystemExit: 3"),
    "KeyboardInterrupt": (raising(KeyboardInterrupt()), "raised KeyboardInterrupt"),
    "recursion": (deep, "raised RecursionError: maximum recursion depth exceeded"),
    "a huge text": (lengthy, "… (50000000 characters)"),
    "another column": (lambda rows: {"k": 1, "n": 1}, "returned the columns k, n; declared are"),
    "another type": (lambda rows: {"key": 1, "n": "x"}, "a value for n that is not a valid int64"),
    "no rows": (lambda rows: 7, "it returned an int; return a batch, a table"),
}


@pytest.mark.parametrize("name", FAILS)
def test_what_a_function_does_wrong_is_named(
    session: fabric.Session, told: Callable[..., None], name: str
) -> None:
    function, words = FAILS[name]
    error = failure(processed(session, function))
    assert isinstance(error, ExpressionError)
    told(error, words, "the function Counting", "for the key", "keyed_process_1", "task job-")
    assert len(str(error)) < 5000


CRASHES: dict[str, tuple[Callable[[Any], object], str]] = {
    "segfault": (lambda rows: ctypes.string_at(0), "killed by SIGSEGV"),
    "exit": (lambda rows: os._exit(3), "exit code 3"),
}


@pytest.mark.parametrize("name", CRASHES)
def test_crashes_are_tried_again_and_then_end_the_job(
    session: fabric.Session, told: Callable[..., None], name: str
) -> None:
    function, words = CRASHES[name]
    error = failure(processed(session, function, on_error="skip"))
    assert isinstance(error, ExternalError)
    told(error, words, "in the function Counting", "attempt 4 of 4", "keyed_process_1")
    assert n_counted(processed(session, lambda rows: None)) == 200


def test_a_call_that_hangs_in_python_is_skipped(session: fabric.Session) -> None:
    def hang(rows: Any) -> None:
        while 7 in rows["row"].to_pylist():
            pass

    frame = processed(session, hang, n_rows=20, on_error="side", timeout="8 seconds")
    assert n_counted(frame) == 19
    letters = frame.side_output("errors").collect()
    assert letters["row"].to_pylist() == [7]
    assert letters["error"].to_pylist() == ["the function Counting took longer than 8 s"]


def test_a_call_that_hangs_in_c_ends_its_job_by_its_own_timeout(
    session: fabric.Session, told: Callable[..., None]
) -> None:
    """It holds the GIL of its process meanwhile, for longer than the agent's lease."""
    asleep = lambda rows: ctypes.PyDLL(None).sleep(3600)  # noqa: E731 - pickled by value
    error = failure(processed(session, asleep, on_error="skip", timeout="1 second"))
    assert isinstance(error, UserError)
    told(error, "the function Counting took longer than its timeout of 1 s", "keyed_process_1")


def test_a_held_gil_holds_up_nobody_else(one: LocalFabric, session: fabric.Session) -> None:
    def hold(rows: Any) -> None:
        if 77 in rows["row"].to_pylist():
            ctypes.PyDLL(None).sleep(HELD_S)

    found: list[int] = []
    held = threading.Thread(target=lambda: found.append(n_counted(processed(session, hold))))
    held.start()
    while held.is_alive():
        assert n_counted(processed(session, lambda rows: None)) == 200
    held.join()
    assert found == [200]


def test_threads_that_are_left_go_with_the_process(one: LocalFabric, tmp_path: Path) -> None:
    marks = tmp_path / "pids"
    marks.mkdir()

    def leak(rows: Any) -> None:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        (marks / str(os.getpid())).touch()

    with fabric.connect(f"fabric://{one.address}", token=one.token) as session:
        assert n_counted(processed(session, leak)) == 200
    (pid,) = (int(path.name) for path in marks.iterdir())
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
