"""What can happen to a coordinator.

One job: the events that `CoordinatorCore.handle` takes. Ids and wall time are part of the event,
since the core can make neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric.checkpoint.manifest import Manifest, Seal
from fabric.config import AdaptiveConfig, CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.checkpoints.requests import Wanted
from fabric.coordinator.core.checkpoints.rows import Pointer
from fabric.coordinator.planner.stages import StageGraph
from fabric.errors import FabricError


@dataclass(frozen=True, slots=True)
class AgentAttached:
    """An agent said hello on a new link; `session` is higher than any before."""

    session: int
    hello: pb.Hello


@dataclass(frozen=True, slots=True)
class AgentDetached:
    """The link of a session is gone."""

    agent_id: str
    session: int
    reason: str


@dataclass(frozen=True, slots=True)
class AgentSaid:
    """A message came in on the link of a session."""

    agent_id: str
    session: int
    message: pb.AgentMessage


@dataclass(frozen=True, slots=True)
class StreamStart:
    """A stream with a name begins, or goes on."""

    origin: pb.StreamOrigin
    """Its name, how often it was started before, and what people are told of its checkpoint."""
    last: int = 0
    """The highest number that an earlier start gave to a checkpoint."""
    pointers: tuple[Pointer, ...] = ()
    """The complete checkpoints that it left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmitted:
    """A plan was checked and cut; `fragments` are the encoded stages, in order."""

    job_id: str
    name: str
    client_key: str
    graph: StageGraph
    fragments: tuple[bytes, ...]
    schema: bytes
    wall_s: float
    adaptive: AdaptiveConfig = field(default_factory=AdaptiveConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    latency_us: int = 0
    stream: StreamStart | None = None
    """Of a stream that has a name."""
    plan: bytes = b""
    """Of a stream: as it was submitted, so that it can be cut anew."""
    parallelism: int = 0
    """How many tasks the stages of a stream have, where nothing bounds them."""
    reactive: bool = False
    """Whether a stream has as many tasks as there are slots, also later."""


@dataclass(frozen=True, slots=True)
class JobReplanned:
    """The plan of a stream was cut anew, into `parallelism` tasks: it is to go on so."""

    job_id: str
    parallelism: int
    graph: StageGraph
    fragments: tuple[bytes, ...]
    reactive: bool = False
    """Whether it follows the slots from now on."""


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """Somebody wants a job to stop."""

    job_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class JobReleased:
    """Nobody needs the partitions of a job any more."""

    job_id: str


@dataclass(frozen=True, slots=True)
class JobRestarted:
    """Somebody wants an ended job to run again, from the node `from_path` on."""

    job_id: str
    from_path: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointAsked:
    """Somebody wants a checkpoint of a stream now; again, under the same key, is fine."""

    job_id: str
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class AgentDrained:
    """Somebody wants an agent to be given nothing more, or (`undo`) to work again."""

    agent_id: str
    undo: bool = False


@dataclass(frozen=True, slots=True)
class DatasetAsked:
    """A dataset request; `transaction_id` is used if it begins one."""

    request: pb.DatasetRequest
    transaction_id: str


@dataclass(frozen=True, slots=True)
class ManifestWritten:
    """A checkpoint's manifest lies in the storage under the seal, or could not be written."""

    job_id: str
    checkpoint: int
    result: Seal | FabricError


@dataclass(frozen=True, slots=True)
class CheckpointVerified:
    """All files of a checkpoint are whole, or are not."""

    job_id: str
    checkpoint: int
    result: tuple[Manifest, Seal] | FabricError


@dataclass(frozen=True, slots=True)
class SavepointWritten:
    """A checkpoint is kept as the savepoint `name`, or could not be."""

    job_id: str
    checkpoint: int
    name: str
    result: pb.SavepointStatus | FabricError


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""

    wall_s: float


Stored = ManifestWritten | CheckpointVerified | SavepointWritten
"""How something went with a checkpoint's files."""

JobAsked = JobSubmitted | JobReplanned | JobCancelled | JobReleased | JobRestarted
"""What somebody wants of a job as a whole."""

Event = (
    AgentAttached | AgentDetached | AgentSaid | AgentDrained | JobAsked | DatasetAsked
    | CheckpointAsked | Stored | Tick
)  # fmt: skip
"""Whatever `handle` takes."""
