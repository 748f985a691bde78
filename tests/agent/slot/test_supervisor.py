"""What is said of a process that ended, and of a function that did not."""

from __future__ import annotations

import signal

import pytest

from fabric.agent.slot.supervisor import Function, crashed, hung, stack_of_function, too_large
from fabric.errors import ConfigError, ExternalError, UserError

SLOW = Function("slow", "map_1")
DUMP = """Thread 0x00007f01 (most recent call first):
  File "selectors.py", line 468 in select
  File "asyncio/base_events.py", line 1884 in _run_once

Current thread 0x00007f02 (most recent call first):
  File "job.py", line 3 in inner
  File "job.py", line 7 in slow
  File "/x/fabric/operators/functions/kernel.py", line 81 in run
  File "/x/fabric/operators/functions/kernel.py", line 33 in call
"""


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (int(signal.SIGSEGV), "was killed by SIGSEGV (Segmentation fault) in the function slow"),
        (int(signal.SIGKILL), "or the system because memory was short"),
        (64, "was killed by SIGRTMAX"),
        (3 << 8, "ended itself with exit code 3 in the function slow"),
        (None, "ended with the process that started it"),
    ],
)
def test_a_crash_names_how_where_and_what_to_do(status: int | None, words: str) -> None:
    error = crashed(status, SLOW)
    assert isinstance(error, ExternalError)
    assert error.retryable
    assert words in error.message
    assert error.where.node == "map_1"


def test_a_crash_outside_of_functions_names_none() -> None:
    error = crashed(int(signal.SIGABRT), None)
    assert "was killed by SIGABRT (Aborted); the agent's log" in error.message


def test_a_process_that_does_nothing_is_another_thing() -> None:
    error = hung(None, 2.5)
    assert isinstance(error, ExternalError)
    assert "did nothing for 2.5 s" in error.message


def test_too_much_memory_names_both_sizes_and_the_setting() -> None:
    error = too_large(300 << 20, 200 << 20, SLOW)
    assert isinstance(error, ConfigError)
    assert "had 300 MiB in the function slow" in error.message
    assert "is 200 MiB" in error.message
    assert "--memory" in error.message


def test_too_much_memory_names_the_setting_that_was_set() -> None:
    error = too_large(300 << 20, 200 << 20, SLOW, as_set=True)
    assert "in the function slow, and slot_memory is 200 MiB" in error.message
    assert "FABRIC_AGENT_SLOT_MEMORY" in error.message


def test_a_hang_names_function_deadline_and_setting() -> None:
    error = hung(SLOW, 2.5)
    assert isinstance(error, UserError)
    assert "the function slow took longer than 2.5 s for one batch" in error.message
    assert "FABRIC_AGENT_BATCH_S" in error.message
    assert error.where.node == "map_1"


def test_of_a_dump_the_functions_frames_are_kept() -> None:
    assert stack_of_function(DUMP).split("\n") == [
        '  File "job.py", line 3 in inner',
        '  File "job.py", line 7 in slow',
    ]


def test_a_dump_without_a_function_keeps_its_first_lines() -> None:
    assert stack_of_function("") == ""
    assert len(stack_of_function("Thread 1\n" + '  File "a", line 1\n' * 99).split("\n")) == 20
