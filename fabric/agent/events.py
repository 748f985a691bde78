"""What happens to an agent.

One job: the events that `AgentCore.handle` takes.
"""

from __future__ import annotations

from dataclasses import dataclass

from fabric.control import control_pb2 as pb


@dataclass(frozen=True, slots=True)
class Said:
    """The coordinator said something."""

    message: pb.CoordinatorMessage


@dataclass(frozen=True, slots=True)
class Ended:
    """A task's thread ended with this report."""

    report: pb.TaskReport


@dataclass(frozen=True, slots=True)
class SinkDone:
    """A sink command was carried out, or failed."""

    report: pb.SinkReport


@dataclass(frozen=True, slots=True)
class Fetched:
    """What an `Adopt` asked for is here, with these totals, or could not be had."""

    adopt: pb.Adopt
    outputs: tuple[pb.EdgeTotals, ...] = ()
    error: pb.ErrorDetail | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """A thread of this agent has something to tell the coordinator, which changes nothing here."""

    message: pb.AgentMessage


@dataclass(frozen=True, slots=True)
class LeaseOver:
    """No word from the coordinator for longer than it waits for one of ours."""

    reason: str


Event = Said | Ended | SinkDone | Fetched | Told | LeaseOver
"""Whatever `handle` takes."""
