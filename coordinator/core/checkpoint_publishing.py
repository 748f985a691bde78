"""What a complete checkpoint owes: the output of its sinks, not yet visible.

One job: `Publishing`. Each sink is asked until it answers; publishing may be repeated, so an answer
that was lost does no harm. A sink that refuses for a reason that may pass is asked again after a
pause that doubles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fabric.coordinator.core.checkpoint_effects import Publish
from fabric.coordinator.core.checkpoint_rows import Pointer

PAUSE_S, PAUSE_MAX_S = 0.5, 30.0


@dataclass(slots=True)
class _Owed:
    handles: tuple[bytes, ...]
    pause_s: float = PAUSE_S
    not_before: float = math.inf
    """When to ask again; infinite while an answer is awaited."""


class Publishing:
    """Of the newest complete checkpoint; there is no other that owes anything."""

    def __init__(self) -> None:
        self._checkpoint = 0
        self._owed: dict[str, _Owed] = {}

    def begin(self, pointer: Pointer | None) -> None:
        """Owe what a checkpoint prepared; None: nothing."""
        self._checkpoint = pointer.checkpoint if pointer is not None else 0
        handles = pointer.handles if pointer is not None else ()
        self._owed = {node: _Owed(each) for node, each in handles}

    @property
    def done(self) -> bool:
        """Whether all is out."""
        return not self._owed

    @property
    def checkpoint(self) -> int:
        """Whose output that is."""
        return self._checkpoint

    @property
    def due(self) -> float:
        """When somebody is to be asked again."""
        return min((owed.not_before for owed in self._owed.values()), default=math.inf)

    def all(self) -> list[Publish]:
        """Ask for everything that is owed."""
        return [self._ask(node) for node in sorted(self._owed)]

    def again(self, now: float) -> list[Publish]:
        """Ask those whose pause is over."""
        return [self._ask(n) for n, owed in sorted(self._owed.items()) if now >= owed.not_before]

    def answered(self, checkpoint: int, node: str) -> bool:
        """A sink's output is out; whether that was owed."""
        return checkpoint == self._checkpoint and self._owed.pop(node, None) is not None

    def failed(self, checkpoint: int, node: str, now: float) -> bool:
        """A sink refused; whether it was asked."""
        owed = self._owed.get(node)
        if owed is None or checkpoint != self._checkpoint or owed.not_before != math.inf:
            return False
        owed.not_before = now + owed.pause_s
        owed.pause_s = min(PAUSE_MAX_S, 2 * owed.pause_s)
        return True

    def _ask(self, node: str) -> Publish:
        owed = self._owed[node]
        owed.not_before = math.inf
        return Publish(self._checkpoint, node, owed.handles)
