"""How a program ends that has streams: told when it forgot to wait, soon when a function hangs."""

from __future__ import annotations

import signal
import subprocess
import sys

FORGETS = """
from fabric import streams
streams.generator(rows_per_s=10).write_stream(streams.to_blackhole(), name="mine")
"""
HANGS = """
import time
import fabric
from fabric import streams

class Hangs(fabric.Process):
    def on_rows(self, ctx, key, rows):
        print("hangs", flush=True)
        while True:
            time.sleep(0.01)

made = streams.generator(rows_per_s=100, n_splits=1)
made.process(Hangs(), keys="key", schema={"a": "int64"}).write_stream(streams.to_blackhole()).wait()
"""


def test_who_does_not_wait_is_told() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORGETS], check=False, capture_output=True, text=True
    )
    assert ended.returncode == 0
    assert "the program ends, and a job that runs with it" in ended.stderr
    assert "name=mine" in ended.stderr


def test_one_ctrl_c_ends_a_function_that_hangs() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HANGS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "hangs\n"
        program.send_signal(signal.SIGINT)
        _, told = program.communicate(timeout=120)
    assert program.returncode == -signal.SIGINT
    assert told.count("Traceback") == 1
    assert told.endswith("KeyboardInterrupt\n")
