"""The page of calls: what runs, since when; also what never returned."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from fabric.agent.slot.calls import CallPage

Pages = tuple[CallPage, CallPage]


@pytest.fixture
def pages() -> Iterator[Pages]:
    descriptor = CallPage.new_file()
    agent, slot = CallPage(descriptor), CallPage(descriptor)
    os.close(descriptor)
    yield agent, slot
    agent.close()
    slot.close()


def test_the_agent_sees_the_oldest_call(pages: Pages) -> None:
    agent, slot = pages
    assert agent.oldest() is None
    before = time.monotonic()
    first, second = slot.begin(7), slot.begin(8)
    found = agent.oldest()
    assert found is not None
    assert found.function == 7
    assert before <= found.since_s <= time.monotonic()
    slot.end(first)
    later = agent.oldest()
    assert later is not None
    assert later.function == 8
    slot.end(second)
    assert agent.oldest() is None


def test_calls_beyond_the_page_go_unseen_and_harm_nothing(pages: Pages) -> None:
    agent, slot = pages
    lines = [slot.begin(i + 1) for i in range(500)]
    assert lines.count(-1) == 500 - len(set(lines) - {-1})
    for line in lines:
        slot.end(line)
    assert agent.oldest() is None
    assert slot.begin(1) >= 0


def test_a_closed_page_has_no_calls(pages: Pages) -> None:
    """The thread of a task may look once more at a slot that another one has ended."""
    agent, slot = pages
    slot.begin(7)
    agent.close()
    assert agent.oldest() is None
