"""Calls that are ended from outside; no clock but a manual one decides."""

import threading

import pytest

from fabric.operators.streams.process.calls import Deadline, TookTooLongError


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


def _loop(deadline, work):
    with deadline.call():
        while True:
            work()


def test_a_loop_of_python_is_ended():
    clock, reached = Clock(), threading.Event()
    deadline = Deadline(1_000, clock)

    def later():
        reached.wait()
        clock.now_s = 1.0

    thread = threading.Thread(target=later)
    thread.start()
    with pytest.raises(TookTooLongError):
        _loop(deadline, reached.set)
    thread.join()
    deadline.close()


def test_code_that_catches_exceptions_is_ended_too():
    clock = Clock()
    deadline = Deadline(1_000, clock)

    def caught():
        try:
            clock.now_s += 1.0
        except Exception:  # as users write it
            return

    with pytest.raises(TookTooLongError):
        _loop(deadline, caught)
    deadline.close()


def test_what_is_over_is_left_alone():
    clock = Clock()
    deadline = Deadline(1_000, clock)
    for _ in range(100):
        with deadline.call():
            pass
        clock.now_s += 1.0
    assert deadline._check() == 0.001
    deadline.close()


def test_a_call_that_raises_by_itself_keeps_its_error():
    deadline = Deadline(60_000_000)
    with pytest.raises(ZeroDivisionError), deadline.call():
        raise ZeroDivisionError
    deadline.close()
