"""Functions that go on when their task was cancelled are interrupted, and nothing else is."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from fabric.agent import task_threads
from fabric.agent.task_threads import Interrupter
from fabric.errors import CancelledError
from fabric.operators.functions.user_code import interrupt, watched


@pytest.fixture
def interrupter(monkeypatch: pytest.MonkeyPatch) -> Interrupter:
    monkeypatch.setattr(task_threads, "PATIENT_S", 0.0)
    return Interrupter()


class Task:
    """A thread that does some work, and what came of it."""

    def __init__(self, work: Callable[[Task], object]) -> None:
        self.begun, self.over = threading.Event(), threading.Event()
        self.raised: BaseException | None = None
        self._work = work
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        assert self.begun.wait(60)

    def _run(self) -> None:
        try:
            self._work(self)
        except BaseException as error:
            self.raised = error

    def hang(self) -> None:
        self.begun.set()
        while not self.over.wait(0.001):
            pass


def test_a_call_that_hangs_is_interrupted(interrupter: Interrupter) -> None:
    def work(task: Task) -> None:
        with watched(b"function"):
            task.hang()

    task = Task(work)
    interrupter.later(task.thread)
    task.thread.join(60)
    assert isinstance(task.raised, CancelledError)
    interrupter.close()


def test_a_thread_in_no_call_is_left_alone(interrupter: Interrupter) -> None:
    def work(task: Task) -> None:
        with watched(b"function"), watched(b"another"):
            pass
        task.hang()

    task = Task(work)
    interrupter.later(task.thread)
    interrupter.close()
    assert task.thread.ident is not None
    interrupt(task.thread.ident)
    task.over.set()
    task.thread.join(60)
    assert task.raised is None


def test_a_thread_that_was_interrupted_can_be_traced(interrupter: Interrupter) -> None:
    """CPython 3.11 stands still there after `PyThreadState_SetAsyncExc(…, NULL)`."""

    def traced() -> None:
        pass

    def work(task: Task) -> None:
        with suppress(CancelledError), watched(b"function"):
            task.hang()
        sys.settrace(lambda *_: None)
        traced()
        sys.settrace(None)

    task = Task(work)
    interrupter.later(task.thread)
    task.thread.join(60)
    assert not task.thread.is_alive()
    assert task.raised is None
    interrupter.close()
