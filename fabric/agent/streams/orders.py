"""What a running task of a stream is told, and what it says in between.

One job: orders from the agent's thread to the task's, in order, with a wake for a task that waits,
and the way back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from fabric.control import control_pb2 as pb

Say = Callable[[pb.AgentMessage], None]


@dataclass(frozen=True, slots=True)
class Trigger:
    """Let the barrier of a checkpoint go out from the sources of this task."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class CheckpointOver:
    """A checkpoint is complete everywhere, or (`complete` false) was given up."""

    checkpoint: int
    complete: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Others:
    """How far the slowest split is that other tasks read of what `node` keeps together."""

    node: str
    time_us: int


Order = Trigger | CheckpointOver | Others


class Orders:
    """A mailbox with one reader; any thread may put, and any may `say`."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self._waiting: deque[Order] = deque()  # its append and popleft are atomic
        self.wake: Callable[[], None] = _nobody_waits
        """Called after each put; the task sets it when it begins to wait on something."""

    def put(self, order: Order) -> None:
        """Give it to the task."""
        self._waiting.append(order)
        self.wake()

    def take(self) -> list[Order]:
        """All that came since the last call.

        >>> orders = Orders(print)
        >>> orders.put(Trigger(1))
        >>> orders.take(), orders.take()
        ([Trigger(checkpoint=1)], [])
        """
        found = []
        while self._waiting:
            found.append(self._waiting.popleft())
        return found


def _nobody_waits() -> None:
    """The task looks by itself."""
