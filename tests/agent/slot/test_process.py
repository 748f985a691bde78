"""A slot's process as its agent's threads use it: one may wait for it while another ends it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fabric.agent.slot.forkserver import Forkserver
from fabric.agent.slot.process import SlotEndedError, SlotProcess
from fabric.clock import SystemClock
from tests.support.wait import wait_until

WAITS_S = 60.0


@pytest.fixture(scope="module")
def forkserver() -> Iterator[Forkserver]:
    made = Forkserver()
    yield made
    made.close()


@pytest.mark.parametrize("killed", [True, False])
def test_who_waits_for_a_slot_hears_that_it_was_ended(forkserver: Forkserver, killed: bool) -> None:
    """Whatever gets the numbers of its descriptors next: polling these would last for ever."""
    with ThreadPoolExecutor(1) as pool:
        for _ in range(5):
            slot = SlotProcess(forkserver, SystemClock())
            waiting = pool.submit(slot.receive, WAITS_S)
            wait_until(waiting.running)
            if killed:
                slot.kill()
            slot.end()
            pipes = [os.pipe() for _ in range(20)]
            try:
                with pytest.raises(SlotEndedError):
                    waiting.result(WAITS_S / 2)
            finally:
                for descriptor in (each for pipe in pipes for each in pipe):
                    os.close(descriptor)


def test_a_slot_that_was_ended_says_nothing(forkserver: Forkserver) -> None:
    slot = SlotProcess(forkserver, SystemClock())
    slot.end()
    with pytest.raises(SlotEndedError):
        slot.receive(WAITS_S)
