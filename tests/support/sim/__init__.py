"""A whole fabric in one thread, driven by a seed: real cores, simulated everything else.

One job: the names. `simulate(seed)` runs one scenario: coordinators and agents (the very
`CoordinatorCore` and `AgentCore` of production), clients, a network, disks, and faults that hit
them. What happens depends on the seed alone; what must never happen is said in `invariants`.
"""

from __future__ import annotations

from tests.support.sim.invariants import Violation
from tests.support.sim.parts import Parts
from tests.support.sim.run import Outcome, simulate
from tests.support.sim.scenario import Scenario, draw

__all__ = ["Outcome", "Parts", "Scenario", "Violation", "draw", "simulate"]
