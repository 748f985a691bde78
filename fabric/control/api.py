"""What a client or an agent may ask of a coordinator, wherever that runs.

`ControlApi` is the protocol. The coordinator's runtime answers in the same process,
`fabric.control.client.GrpcControl` over the network; both raise `FabricError`s. Arguments and
results are the messages of `control.proto`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

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


class ControlApi(Protocol):
    """The calls; `submit` and `explain` may read file footers, the others only take a moment."""

    def submit(self, request: pb.SubmitRequest) -> pb.JobStatus:
        """Check, plan and start a plan. The same `client_key` again gives the same job."""

    def explain(self, request: pb.SubmitRequest) -> pb.ExplainReply:
        """Plan, optimised plan and stages as text, and a picture; starts nothing."""

    def watch(self, request: pb.JobRequest) -> Iterator[pb.JobStatus]:
        """The status now, after each change and every second; ends after the ended one."""

    def cancel(self, request: pb.JobRequest) -> pb.JobStatus:
        """Stop a job; it ends when its tasks have. One that has ended stays as it is."""

    def release(self, request: pb.JobRequest) -> pb.JobStatus:
        """Drop a job's partitions on every agent; one that runs is cancelled, and ends, first."""

    def restart(self, request: pb.RestartRequest) -> pb.JobStatus:
        """Run an ended job again, from a node on; what is materialised before it is read again."""

    def list_tasks(self, request: pb.JobRequest) -> pb.TaskList:
        """The attempts of a job's tasks, by stage, task and attempt."""

    def list_checkpoints(self, request: pb.CheckpointsRequest) -> pb.CheckpointList:
        """The checkpoints of a stream: kept, given up lately, and the one under way."""

    def job_plan(self, request: pb.JobRequest) -> pb.ExplainReply:
        """A job's plan and stages as they run, also after they were planned anew."""

    def list_events(self, request: pb.EventsRequest) -> pb.EventList:
        """The newest events, of a job or of all, oldest first."""

    def drain(self, request: pb.DrainRequest) -> pb.AgentStatus:
        """Give an agent no further tasks and move what it holds elsewhere; or undo that."""

    def list_jobs(self, request: pb.ListRequest) -> pb.JobList:
        """The jobs the coordinator remembers, or a page of them, oldest first."""

    def list_agents(self, request: pb.ListRequest) -> pb.AgentList:
        """Every agent that is attached, by id."""

    def locate(self, request: pb.LocateRequest) -> pb.Locations:
        """Where a job's edges or a dataset's partitions are; `NotFoundError` when unknown."""

    def dataset(self, request: pb.DatasetRequest) -> pb.DatasetReply:
        """Begin, commit or abort a dataset transaction; drop or list datasets."""
