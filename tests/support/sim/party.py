"""A simulated process: it lives, stops, wakes, dies and is started again.

One job: `Party`. Its steps are dropped once it is dead, and held while it is stopped (SIGSTOP): a
process that wakes finds time gone by and does what it had buffered. Its clocks are its own.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.support.sim.scheduler import Scheduler, Step
from tests.support.sim.trace import Trace

WALL_S = 1_700_000_000.0


class Crashed(Exception):
    """Raised inside a step: the process dies here."""


class Party:
    """Base of everything that has a process; `boot` is what it does when it is started."""

    def __init__(self, name: str, scheduler: Scheduler, trace: Trace) -> None:
        self.name, self.scheduler, self.trace = name, scheduler, trace
        self.alive = self.paused = False
        self.life = 0
        """How often it was started."""
        self.wall_step_s = 0.0
        self.steps_to_live: int | None = None
        """It dies when it has carried out so many effects more."""
        self.on_death: list[Callable[[Party], None]] = []
        self._held: list[Step] = []
        self._born_s = 0.0

    def boot(self) -> None:
        """Begin to work; nothing of an earlier life is left but what a disk holds."""

    def after(self, delay_s: float, action: Step) -> None:
        """Do `action` later, in this life."""
        life = self.life

        def step() -> None:
            if not self.alive or self.life != life:
                return
            if self.paused:
                self._held.append(step)
                return
            try:
                action()
            except Crashed as crash:
                self.crash(str(crash))

        self.scheduler.after(delay_s, step)

    def start(self) -> None:
        """Start it unless it runs."""
        if self.alive:
            return
        self.alive, self.paused, self.life = True, False, self.life + 1
        self._born_s = self.scheduler.rng.uniform(0.0, 1000.0)
        self.say(f"starts, life {self.life}")
        self.after(0.0, self.boot)

    def crash(self, why: str = "killed") -> None:
        """End it at once: nothing is said, nothing is written."""
        if not self.alive:
            return
        self.say(f"dies: {why}")
        self.alive = self.paused = False
        self.steps_to_live = None
        self._held.clear()
        for told in list(self.on_death):
            told(self)

    def spend(self) -> None:
        """One of the moments at which it may die."""
        if self.steps_to_live is not None:
            self.steps_to_live -= 1
            if self.steps_to_live <= 0:
                raise Crashed("it dies between two steps")

    def pause(self) -> None:
        """Stop it; it does not know."""
        if self.alive:
            self.paused = True
            self.say("stops")

    def resume(self) -> None:
        """Let it go on with what it has buffered, in any order."""
        if not self.paused:
            return
        self.paused = False
        self.say(f"wakes with {len(self._held)} steps")
        held, self._held = self._held, []
        for step in held:
            self.scheduler.after(self.scheduler.rng.uniform(0.0, 0.01), step)

    def monotonic_s(self) -> float:
        """See `fabric.clock.Clock`; each life begins anywhere."""
        return self.scheduler.now + self._born_s

    def wall_s(self) -> float:
        """See `fabric.clock.Clock`."""
        return self.scheduler.now + WALL_S + self.wall_step_s

    def say(self, what: str) -> None:
        """Put a line into the trace."""
        self.trace.add(self.scheduler.now, self.name, what)
