"""A stream between an agent and a coordinator, as gRPC has them.

One job: `Session`. Messages of one direction keep their order, or the stream breaks as a whole, and
each end learns of that at its own time. While the way is cut, messages wait, as TCP's do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.support.sim.network import Network
from tests.support.sim.party import Party


class End:
    """One end of a session: `take` gets messages, `broken` is told once by the other end."""

    def __init__(
        self, party: Party, take: Callable[[Any], None], broken: Callable[[str], None]
    ) -> None:
        self.party, self.take, self.broken = party, take, broken
        self.open = party.alive
        self._life = party.life
        self.queue: deque[Any] = deque()
        self.last_s = 0.0
        self.n_waiting = 0

    def give(self) -> None:
        """Whichever step comes first takes the oldest message: order is kept."""
        message = self.queue.popleft()
        if self.open and self.party.life == self._life:
            self.take(message)

    def lose(self, reason: str) -> None:
        """The stream is over, as this end sees it."""
        if self.open:
            self.open = False
            self.broken(reason)


class Session:
    """Joins two ends; index 0 opened it."""

    def __init__(self, network: Network, ends: tuple[End, End]) -> None:
        self._network, self.ends = network, ends
        self._cut = False
        self._n_changes = 0
        for end in ends:
            end.party.on_death.append(self._died)
        network.on_change.append(self._changed)
        self._changed()

    def send(self, side: int, message: Any) -> None:
        """Give the other end a message; without effect once this end is over."""
        if not self.ends[side].open:
            return
        network = self._network
        for _ in range(2 if network.scheduler.chance(network.weather.doubled) else 1):
            self._put(self.ends[1 - side], message)

    def close(self, side: int) -> None:
        """End it from one side; the other learns of it."""
        self.ends[side].open = False
        self._break(1 - side, "the other side ended it")

    def reset(self) -> None:
        """Break it; each end notices when it does."""
        for side in (0, 1):
            self._break(side, "connection reset")

    def _put(self, target: End, message: Any) -> None:
        scheduler = self._network.scheduler
        target.queue.append(message)
        target.last_s = max(target.last_s, scheduler.now + self._network.delay_s())
        scheduler.after(target.last_s - scheduler.now, lambda: self._arrive(target))

    def _arrive(self, target: End) -> None:
        if self._blocked(target):
            target.n_waiting += 1
        else:
            target.party.after(0.0, target.give)

    def _blocked(self, target: End) -> bool:
        other = self.ends[0] if target is self.ends[1] else self.ends[1]
        return self._network.blocked(other.party.name, target.party.name, "control")

    def _break(self, side: int, reason: str) -> None:
        end = self.ends[side]
        end.party.after(self._network.delay_s(), lambda: self._tell(end, reason))

    def _tell(self, end: End, reason: str) -> None:
        """The news of an end travel as messages do; without them, keepalive tells."""
        if not self._blocked(end):
            end.lose(reason)
            self._forget_if_over()

    def _died(self, party: Party) -> None:
        for side, end in enumerate(self.ends):
            if end.party is party and end.open:
                end.open = False
                self._break(1 - side, "connection reset")
        self._forget_if_over()

    def _changed(self) -> None:
        """The network was cut or healed somewhere."""
        cut = any(self._blocked(end) for end in self.ends)
        if cut == self._cut and not cut:
            return
        if cut and not self._cut:
            self._n_changes += 1
            change = self._n_changes
            for end in self.ends:
                pause_s = self._network.keepalive_s * self._network.scheduler.rng.uniform(1.0, 1.3)
                end.party.after(pause_s, partial(self._expire, end, change))
        self._cut = cut
        for end in self.ends:
            if not self._blocked(end):
                self._let_pass(end)
        if not cut:
            self._n_changes += 1
            for side, end in enumerate(self.ends):
                if not end.open:
                    self._break(1 - side, "connection reset")

    def _let_pass(self, end: End) -> None:
        n_waiting, end.n_waiting = end.n_waiting, 0
        for _ in range(n_waiting):
            self._network.scheduler.after(0.0, lambda: self._arrive(end))

    def _expire(self, end: End, change: int) -> None:
        if change == self._n_changes:
            end.lose("keepalive had no answer")
            self._forget_if_over()

    def _forget_if_over(self) -> None:
        """Nobody has news for a session of which both ends are over."""
        if any(end.open for end in self.ends) or self._changed not in self._network.on_change:
            return
        self._network.on_change.remove(self._changed)
        for end in self.ends:
            end.party.on_death.remove(self._died)
