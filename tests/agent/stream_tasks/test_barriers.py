"""Barriers that come twice, late, never, of an aborted checkpoint or an old attempt (F15).

They are put among real batches on the channels of a task. Whatever they are, no row is lost,
doubled or passed by another one of its channel, nothing waits for ever, and a snapshot that is
taken holds what came before its barrier on every channel.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric._cython.shuffle.ring.ring import Rows
from fabric.agent.pipes import Item, Mark
from fabric.agent.stream_tasks.channels import Channels, EdgeRows
from fabric.checkpoint.alignment import DeclineSnapshot, TakeSnapshot
from fabric.flight.header import Event

N_BARRIERS, RESTORED = 5, 10


def rows(producer: int, value: int) -> Rows:
    return Rows(producer, pa.record_batch({"p": [producer], "v": [value]}))


def barrier(producer: int, checkpoint: int) -> Mark:
    return Mark(producer, Event.BARRIER, checkpoint)


def disturbed(rng: Random, producer: int) -> list[Item]:
    """Rows, with each barrier where it belongs or missing, and others that mean nothing."""
    items: list[Item] = []
    value = 0
    for checkpoint in range(RESTORED + 1, RESTORED + N_BARRIERS + 1):
        for _ in range(rng.randrange(4)):
            items.append(rows(producer, value))
            value += 1
        if rng.randrange(6):  # else it is missing
            items.append(barrier(producer, checkpoint))
        for _ in range(rng.randrange(3)):
            # twice, late, or of what the task was restored from and before
            items.append(barrier(producer, checkpoint - rng.choice((0, 1, 2, 5, 10))))
            items.append(rows(producer, value))
            value += 1
    return [*items, Mark(producer, Event.END)]


@settings(max_examples=200)
@given(seed=st.integers(0, 1 << 32), n=st.integers(1, 4))
def test_wrong_barriers_change_nothing(seed: int, n: int) -> None:
    rng = Random(seed)
    queues = [disturbed(rng, p) for p in range(n)]
    before = {p: first_of(queues[p]) for p in range(n)}
    channels = Channels({0: range(n)}, has_sources=False, held_bytes_max=1 << 30, restored=RESTORED)
    left = [list(items) for items in queues]
    came: dict[int, list[int]] = defaultdict(list)
    over = set()
    while any(left):
        if not rng.randrange(12):
            number = rng.randint(RESTORED - 1, RESTORED + N_BARRIERS)
            events = list(channels.aborted(number))
        else:
            producer = rng.choice([p for p in range(n) if left[p]])
            events = list(channels.item(0, left[producer].pop(0)))
        for event in events:
            match event:
                case EdgeRows(batch=batch):
                    came[batch["p"][0].as_py()].append(batch["v"][0].as_py())
                case TakeSnapshot(checkpoint=checkpoint):
                    assert checkpoint > RESTORED
                    assert checkpoint not in over, "a checkpoint was taken twice, or after all"
                    over.add(checkpoint)
                    for p in range(n):
                        cut = before[p].get(checkpoint, len(values(queues[p])))
                        assert len(came[p]) == cut, f"checkpoint {checkpoint}, channel {p}"
                case DeclineSnapshot(checkpoint=checkpoint):
                    over.add(checkpoint)
    for p in range(n):
        assert came[p] == values(queues[p]), "a row was lost, doubled, or passed by another"


def first_of(items: list[Item]) -> dict[int, int]:
    """How many rows came before the first barrier of each checkpoint."""
    found: dict[int, int] = {}
    n = 0
    for item in items:
        if isinstance(item, Rows):
            n += 1
        elif item.event == Event.BARRIER:
            found.setdefault(item.value, n)
    return found


def values(items: list[Item]) -> list[int]:
    return [item.batch["v"][0].as_py() for item in items if isinstance(item, Rows)]
