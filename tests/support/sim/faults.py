"""What goes wrong in a run, and when.

One job: `Faults`, which brings a scenario's faults over the parties and takes them away again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.support.sim.network import Link, Plane
from tests.support.sim.party import Party
from tests.support.sim.scenario import Fault

if TYPE_CHECKING:
    from tests.support.sim.world import World

RESTART_S = (0.1, 1.0)
"""After what time a supervisor starts a process again that ended by itself."""


class Faults:
    """One run's; `heal` ends all of them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.killed: list[str] = []
        """Whoever died, in order."""
        self._down_s: dict[str, float] = {}
        for party in world.parties():
            party.on_death.append(self._died)
        for fault in world.scenario.faults:
            world.scheduler.after(fault.at_s, partial(self._strike, fault))

    def heal(self) -> None:
        """From now on nothing goes wrong."""
        world = self._world
        world.trace.add(world.scheduler.now, "", "everything heals")
        world.network.heal()
        world.network.weather.lost = world.network.weather.slow = 0.0
        for party in world.parties():
            party.steps_to_live = None
            party.resume()
            party.start()
        world.disk.full = world.disk.away = False
        for agent in world.agents:
            agent.overloaded = 0.0

    def _strike(self, fault: Fault) -> None:
        world = self._world
        world.trace.add(world.scheduler.now, "", f"{fault}")
        party = world.network.parties[fault.who]
        match fault.kind:
            case "kill":
                self._down_s[party.name] = fault.lasts_s
                party.crash()
            case "stop":
                party.pause()
                world.scheduler.after(fault.lasts_s, party.resume)
            case "jump wall":
                party.wall_step_s += fault.lasts_s
            case "reset":
                world.reset(fault.who)
            case "die at step":
                self._down_s[party.name] = fault.lasts_s
                party.steps_to_live = fault.number
            case "disk full":
                world.disk.full = True
                world.scheduler.after(fault.lasts_s, self._make_room)
            case "store away":
                world.disk.away = True
                world.scheduler.after(fault.lasts_s, self._come_back)
            case "drain":
                world.drain(fault.who, fault.lasts_s)
            case _:
                links = _links(fault)
                world.network.cut(links)
                world.scheduler.after(fault.lasts_s, lambda: world.network.heal(links))

    def _make_room(self) -> None:
        self._world.disk.full = False

    def _come_back(self) -> None:
        self._world.disk.away = False

    def _died(self, party: Party) -> None:
        """A supervisor starts it again."""
        scheduler = self._world.scheduler
        self.killed.append(party.name)
        pause_s = self._down_s.pop(party.name, 0.0) + scheduler.rng.uniform(*RESTART_S)
        scheduler.after(pause_s, party.start)


def _links(fault: Fault) -> list[Link]:
    planes: list[Plane] = ["control", "data"]
    if fault.kind == "cut control":
        planes = ["control"]
    elif fault.kind == "cut data":
        planes = ["data"]
    a, b = fault.who, fault.other
    ways = [(a, b)] if fault.kind == "cut one way" else [(a, b), (b, a)]
    return [(source, target, plane) for source, target in ways for plane in planes]
