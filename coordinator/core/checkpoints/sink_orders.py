"""What sinks are to do for a checkpoint, all of them, before anything else happens.

One job: `SinkOrders`. Each sink is asked until it answers; what it is asked may be repeated, so an
answer that was lost does no harm. One that refuses for a reason that may pass is asked again after
a pause that doubles. Sinks are asked to publish what a complete checkpoint owes, and to take back
what was published after one that is restored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from fabric.coordinator.core.checkpoints.rows import Pointer
from fabric.coordinator.core.effects import Publish, TakeBack

Order = Publish | TakeBack
PAUSE_S, PAUSE_MAX_S = 0.5, 30.0


@dataclass(slots=True)
class _Owed:
    order: Order
    pause_s: float = PAUSE_S
    not_before: float = math.inf
    """When to ask again; infinite while an answer is awaited."""


class SinkOrders:
    """For one checkpoint at a time."""

    def __init__(self) -> None:
        self.checkpoint = 0
        """Whose output is owed."""
        self._owed: dict[str, _Owed] = {}

    def begin(self, checkpoint: int, orders: Iterable[Order]) -> None:
        """Owe this, and nothing else any more."""
        self.checkpoint = checkpoint
        self._owed = {order.node: _Owed(order) for order in orders}

    def publish(self, owed: Pointer | None) -> None:
        """Owe what a complete checkpoint prepared, and nothing else any more."""
        number, handles = (owed.checkpoint, owed.handles) if owed is not None else (0, ())
        self.begin(number, [Publish(number, node, each) for node, each in handles])

    @property
    def done(self) -> bool:
        """Whether all is out."""
        return not self._owed

    @property
    def due(self) -> float:
        """When somebody is to be asked again."""
        return min((owed.not_before for owed in self._owed.values()), default=math.inf)

    def all(self) -> list[Order]:
        """Ask for everything that is owed."""
        return [self._ask(node) for node in sorted(self._owed)]

    def again(self, now: float) -> list[Order]:
        """Ask those whose pause is over."""
        return [self._ask(n) for n, owed in sorted(self._owed.items()) if now >= owed.not_before]

    def answered(self, checkpoint: int, node: str) -> bool:
        """A sink has done it; whether that was owed."""
        return checkpoint == self.checkpoint and self._owed.pop(node, None) is not None

    def failed(self, checkpoint: int, node: str, now: float) -> bool:
        """A sink refused; whether it was asked."""
        owed = self._owed.get(node)
        if owed is None or checkpoint != self.checkpoint or owed.not_before != math.inf:
            return False
        owed.not_before = now + owed.pause_s
        owed.pause_s = min(PAUSE_MAX_S, 2 * owed.pause_s)
        return True

    def _ask(self, node: str) -> Order:
        owed = self._owed[node]
        owed.not_before = math.inf
        return owed.order
