"""What a client or an agent may ask of a coordinator, wherever that runs.

A verb is an rpc of `control.proto` and a method of `ControlApi` with the rpc's messages. Whoever
answers verbs overrides the methods: `fabric.coordinator.runtime.runtime`. Whoever carries them
elsewhere (`GrpcControl`, or a coordinator's front) overrides `call` alone, and finds the way by
`VERBS`, the table that the proto has. All raise `FabricError`s.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from fabric.control import control_pb2 as pb

ENDED = frozenset(
    (pb.JOB_FINISHED, pb.JOB_FAILED, pb.JOB_CANCELLED, pb.JOB_RELEASED)
)  # fmt: skip
"""Job states that no job leaves, except for `JOB_RELEASED`."""

STATES: Mapping[pb.JobState, str] = {
    pb.JOB_QUEUED: "queued", pb.JOB_RUNNING: "running", pb.JOB_FINISHED: "finished",
    pb.JOB_FAILED: "failed", pb.JOB_CANCELLED: "cancelled", pb.JOB_RELEASED: "released",
}  # fmt: skip
"""What people call the states of a job."""

Reply = TypeVar("Reply", bound=Message)


class Verb(NamedTuple):
    """A call with one request and one reply."""

    name: str
    method: str
    """Of `ControlApi`."""
    request: type[Message]
    reply: type[Message]


SERVICE = pb.DESCRIPTOR.services_by_name["Control"]
VERBS: Mapping[str, Verb] = {
    rpc.name: Verb(
        rpc.name,
        re.sub(r"(?<!^)(?=[A-Z])", "_", rpc.name).lower(),
        GetMessageClass(rpc.input_type),
        GetMessageClass(rpc.output_type),
    )
    for rpc in SERVICE.methods
    if not (rpc.client_streaming or rpc.server_streaming)
}
"""By the name of the rpc; without `Watch` and `Attach`, which are streams."""


class ControlApi:
    """The verbs; `submit` and `explain` may read file footers, the others only take a moment."""

    def call(self, verb: str, request: Message, reply: type[Reply]) -> Reply:
        """The reply to a verb that has no method of its own here."""
        raise NotImplementedError(f"{type(self).__name__} does not answer {verb}")

    def watch(self, request: pb.JobRequest) -> Iterator[pb.JobStatus]:
        """The status now, after each change and every second; ends after the ended one."""
        raise NotImplementedError(f"{type(self).__name__} does not answer Watch")

    def submit(self, request: pb.SubmitRequest) -> pb.JobStatus:
        """Check, plan and start a plan. The same `client_key` again gives the same job."""
        return self.call("Submit", request, pb.JobStatus)

    def explain(self, request: pb.SubmitRequest) -> pb.ExplainReply:
        """Plan, optimised plan and stages as text, and a picture; starts nothing."""
        return self.call("Explain", request, pb.ExplainReply)

    def cancel(self, request: pb.JobRequest) -> pb.JobStatus:
        """Stop a job; it ends when its tasks have. One that has ended stays as it is."""
        return self.call("Cancel", request, pb.JobStatus)

    def release(self, request: pb.JobRequest) -> pb.JobStatus:
        """Drop a job's partitions on every agent; one that runs is cancelled, and ends, first."""
        return self.call("Release", request, pb.JobStatus)

    def restart(self, request: pb.RestartRequest) -> pb.JobStatus:
        """Run an ended job again, from a node on; what is materialised before it is read again."""
        return self.call("Restart", request, pb.JobStatus)

    def rescale(self, request: pb.RescaleRequest) -> pb.JobStatus:
        """Have a stream go on with another number of tasks, from its newest checkpoint.

        Returns when that is begun; `JobStatus.rescaling` says whether it is done.
        """
        return self.call("Rescale", request, pb.JobStatus)

    def list_tasks(self, request: pb.JobRequest) -> pb.TaskList:
        """The attempts of a job's tasks, by stage, task and attempt."""
        return self.call("ListTasks", request, pb.TaskList)

    def list_checkpoints(self, request: pb.CheckpointsRequest) -> pb.CheckpointList:
        """The checkpoints of a stream: kept, given up lately, and the one under way."""
        return self.call("ListCheckpoints", request, pb.CheckpointList)

    def take_checkpoint(self, request: pb.TakeCheckpointRequest) -> pb.TakenCheckpoint:
        """Have a stream take a checkpoint now, and say how far that is; the same `key` asks again.

        It is kept as a savepoint if it has a name, and after it the stream goes on, stops, or is
        drained. Returns at once: whoever waits asks again.
        """
        return self.call("TakeCheckpoint", request, pb.TakenCheckpoint)

    def list_savepoints(self, request: pb.SavepointsRequest) -> pb.SavepointList:
        """The savepoints of a checkpoint folder, the oldest first, or the one of a name."""
        return self.call("ListSavepoints", request, pb.SavepointList)

    def delete_savepoint(self, request: pb.SavepointsRequest) -> pb.SavepointList:
        """Remove a savepoint; returns what it was."""
        return self.call("DeleteSavepoint", request, pb.SavepointList)

    def list_streams(self, request: pb.StreamsRequest) -> pb.StreamList:
        """The streams that have a name in a checkpoint folder, by name."""
        return self.call("ListStreams", request, pb.StreamList)

    def drop_stream(self, request: pb.StreamsRequest) -> pb.StreamList:
        """Forget the name of a stream, with its checkpoints; returns what it was."""
        return self.call("DropStream", request, pb.StreamList)

    def job_plan(self, request: pb.JobRequest) -> pb.ExplainReply:
        """A job's plan and stages as they run, also after they were planned anew."""
        return self.call("JobPlan", request, pb.ExplainReply)

    def list_events(self, request: pb.EventsRequest) -> pb.EventList:
        """The newest events, of a job or of all, oldest first."""
        return self.call("ListEvents", request, pb.EventList)

    def drain(self, request: pb.AgentRequest) -> pb.AgentStatus:
        """Give an agent no further tasks and move what it holds elsewhere."""
        return self.call("Drain", request, pb.AgentStatus)

    def undrain(self, request: pb.AgentRequest) -> pb.AgentStatus:
        """Give an agent tasks again."""
        return self.call("Undrain", request, pb.AgentStatus)

    def list_jobs(self, request: pb.ListRequest) -> pb.JobList:
        """The jobs the coordinator remembers, or a page of them, oldest first."""
        return self.call("ListJobs", request, pb.JobList)

    def list_agents(self, request: pb.ListRequest) -> pb.AgentList:
        """Every agent that is attached, by id."""
        return self.call("ListAgents", request, pb.AgentList)

    def locate(self, request: pb.LocateRequest) -> pb.Locations:
        """Where a job's edges or a dataset's partitions are; `NotFoundError` when unknown."""
        return self.call("Locate", request, pb.Locations)

    def dataset(self, request: pb.DatasetRequest) -> pb.DatasetReply:
        """Begin, commit, abort or take back a dataset transaction; drop, list or show datasets."""
        return self.call("Dataset", request, pb.DatasetReply)

    def depose(self, request: pb.Leadership) -> pb.Leadership:
        """Another coordinator says that it leads."""
        return self.call("Depose", request, pb.Leadership)


def answer(control: ControlApi, verb: str, request: Message, reply: type[Reply]) -> Reply:
    """What the method of `control` for a verb replies."""
    method: Callable[[Message], Message] = getattr(control, VERBS[verb].method)
    found = method(request)
    assert isinstance(found, reply)
    return found
