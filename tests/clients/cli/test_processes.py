"""Being told to stop, by Ctrl-C or SIGTERM: also where SIGINT is ignored or its exception lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fabric.clients.cli.processes import STOPPERS, ctrl_c_ends, stop_asked


@pytest.fixture(params=[signal.SIG_IGN, signal.default_int_handler])
def before(request: pytest.FixtureRequest) -> Iterator[object]:
    kept = signal.signal(signal.SIGINT, request.param)
    yield request.param
    signal.signal(signal.SIGINT, kept)


@pytest.mark.parametrize("sign", STOPPERS)
def test_a_signal_sets_the_event(before: object, sign: signal.Signals) -> None:
    with stop_asked() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), sign)
        assert stop.wait(60)
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_stays_what_it_was(before: object) -> None:
    with ctrl_c_ends():
        assert (signal.getsignal(signal.SIGINT) is before) == (before is signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is before


LOSES = """
import time
from fabric.clients.cli.processes import ctrl_c_ends
with ctrl_c_ends(1):
    while True:
        try:
            print("ready", flush=True)
            time.sleep(60)
        except KeyboardInterrupt:
            pass
"""


def test_a_lost_ctrl_c_ends_the_process_all_the_same() -> None:
    command = [sys.executable, "-c", LOSES]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == -signal.SIGALRM
            assert process.stdout.read() == "ready\n"  # it went on
        finally:
            process.kill()
