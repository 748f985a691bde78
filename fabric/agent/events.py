"""What happens to an agent, and what it wants done.

One job: the events that `AgentCore.handle` takes, and the effects that it returns, to be carried
out in order.
"""

from __future__ import annotations

from dataclasses import dataclass

from fabric.agent.attempts import TaskSpec
from fabric.agent.stream_tasks.mailbox import Order
from fabric.control import control_pb2 as pb
from fabric.ids import TaskId


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message of the coordinator."""

    message: pb.CoordinatorMessage


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """A task's thread ended with this report."""

    report: pb.TaskReport


@dataclass(frozen=True, slots=True)
class Fetched:
    """What an `Adopt` asked for is here, with these totals, or could not be had."""

    adopt: pb.Adopt
    outputs: tuple[pb.EdgeTotals, ...] = ()
    error: pb.ErrorDetail | None = None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message of a thread of this agent to the coordinator, which changes nothing here."""

    message: pb.AgentMessage


@dataclass(frozen=True, slots=True)
class LeaseOver:
    """No word from the coordinator for longer than it waits for one of ours."""

    reason: str


Event = Incoming | TaskEnd | Fetched | Outgoing | LeaseOver
"""Whatever `AgentCore.handle` takes."""


@dataclass(frozen=True, slots=True)
class Start:
    """Run a task in a thread of its own."""

    spec: TaskSpec


@dataclass(frozen=True, slots=True)
class Cancel:
    """Make a running task stop; it will report its end."""

    id: TaskId
    reason: str


@dataclass(frozen=True, slots=True)
class OrderTask:
    """Give a running task of a stream an order."""

    id: TaskId
    order: Order


@dataclass(frozen=True, slots=True)
class Send:
    """Tell the coordinator."""

    message: pb.AgentMessage


@dataclass(frozen=True, slots=True)
class DropJob:
    """Drop all partitions, queues and anything else of a job."""

    job: str


@dataclass(frozen=True, slots=True)
class DropOutput:
    """Drop what one attempt wrote for its edges."""

    id: TaskId
    edges: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DropPipes:
    """The pipelined edges of a job begin anew; none of its tasks uses them any more."""

    job: str


@dataclass(frozen=True, slots=True)
class Fetch:
    """Get sealed output from another agent, then say `Fetched`."""

    adopt: pb.Adopt


@dataclass(frozen=True, slots=True)
class RunSink:
    """Publish or abandon, then report it."""

    command: pb.SinkCommand


@dataclass(frozen=True, slots=True)
class AbandonSinks:
    """Drop prepared output that will never be published; nobody waits for it.

    All that its stage wrote, or (`attempts`) what just these attempts wrote.
    """

    job: str
    handles: tuple[bytes, ...]
    attempts: bool = False


@dataclass(frozen=True, slots=True)
class CopyReplica:
    """Copy a partition of a dataset from another owner, then say so."""

    order: pb.Replicate


@dataclass(frozen=True, slots=True)
class KeepPartitions:
    """Remove partitions of a dataset that others own now; after the copies ordered before."""

    order: pb.KeepPartitions


@dataclass(frozen=True, slots=True)
class Relocate:
    """Apply locations to the agent's table."""

    locations: pb.Locations


Effect = (
    Start | Cancel | OrderTask | Send | DropJob | DropOutput | DropPipes | Fetch | RunSink
    | AbandonSinks | CopyReplica | KeepPartitions | Relocate
)  # fmt: skip
"""Whatever `AgentCore.handle` returns."""
