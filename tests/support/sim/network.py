"""The simulated network: who reaches whom, how long it takes, what is lost.

One job: `Network`, with reachability by direction and plane, and calls (a request and its answer).
Either of the two may be lost, late or doubled, so a caller that heard nothing knows nothing.
Streams that keep their order are in `session.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from fabric.errors import FabricError, PeerLostError
from tests.support.sim.party import Party
from tests.support.sim.scheduler import Scheduler

Plane = Literal["control", "data"]
Link = tuple[str, str, Plane]
"""From whom, to whom, and what for."""


@dataclass(slots=True)
class Weather:
    """What the network does to messages that are not cut off."""

    delay_s: tuple[float, float] = (0.0002, 0.003)
    lost: float = 0.0
    doubled: float = 0.0
    slow: float = 0.0
    """Share of messages that take up to a second."""


class Server(Protocol):
    """A party that answers calls."""

    def serve(self, request: Any, answer: Callable[[Any], None]) -> None:
        """Give the answer, a `FabricError` perhaps, now or later; or raise one."""


class Network:
    """Between all parties; `keepalive_s` is when a silent stream counts as broken."""

    def __init__(self, scheduler: Scheduler, keepalive_s: float) -> None:
        self.scheduler, self.keepalive_s = scheduler, keepalive_s
        self.weather = Weather()
        self.parties: dict[str, Party] = {}
        self.on_change: list[Callable[[], None]] = []
        self._cut: dict[Link, None] = {}

    def add(self, party: Party) -> None:
        """Connect a party."""
        self.parties[party.name] = party

    def blocked(self, source: str, target: str, plane: Plane) -> bool:
        """Whether nothing gets from `source` to `target` now."""
        return (source, target, plane) in self._cut

    def cut(self, links: list[Link]) -> None:
        """Let nothing pass any more in these directions."""
        self._cut.update(dict.fromkeys(links))
        self._changed()

    def heal(self, links: list[Link] | None = None) -> None:
        """Let everything pass again (None: everywhere)."""
        for link in list(self._cut) if links is None else links:
            self._cut.pop(link, None)
        self._changed()

    def _changed(self) -> None:
        for told in list(self.on_change):
            told()

    def delay_s(self) -> float:
        """How long the next message takes."""
        rng, weather = self.scheduler.rng, self.weather
        if weather.slow and rng.random() < weather.slow:
            return rng.uniform(0.0, 1.0)
        return rng.uniform(*weather.delay_s)

    def call(
        self,
        caller: Party,
        target: str,
        plane: Plane,
        request: Any,
        answered: Callable[[Any], None],
        *,
        timeout_s: float,
    ) -> None:
        """Ask `target`; `answered` is told once: the answer, or a `FabricError`."""
        open_calls = [answered]

        def answer(value: Any) -> None:
            if open_calls:
                open_calls.pop()(value)

        lost = PeerLostError(f"{target} did not answer for {timeout_s:g} s")
        caller.after(timeout_s, lambda: answer(lost))
        copies = 2 if self.scheduler.chance(self.weather.doubled) else 1
        for _ in range(copies):
            self._carry(caller.name, target, plane, lambda: self._ask(
                caller, target, plane, request, answer
            ))  # fmt: skip

    def _ask(
        self,
        caller: Party,
        target: str,
        plane: Plane,
        request: Any,
        answer: Callable[[Any], None],
    ) -> None:
        party = self.parties[target]
        life = party.life

        def serve() -> None:
            try:
                party.serve(request, reply)  # type: ignore[attr-defined]
            except FabricError as error:
                reply(error)

        def reply(value: Any) -> None:
            self._carry(target, caller.name, plane, lambda: caller_hears(value))

        def caller_hears(value: Any) -> None:
            if party.life == life:  # else its connection is gone
                caller.after(0.0, lambda: answer(value))

        if party.alive:
            party.after(0.0, serve)
        else:
            refused = PeerLostError(f"{target} refuses connections")
            self._carry(target, caller.name, plane, lambda: caller_hears(refused))

    def _carry(self, source: str, target: str, plane: Plane, arrive: Callable[[], None]) -> None:
        """Let one message of a call travel, unless it is lost."""
        if self.blocked(source, target, plane) or self.scheduler.chance(self.weather.lost):
            return
        self.scheduler.after(
            self.delay_s(),
            lambda: None if self.blocked(source, target, plane) else arrive(),
        )
