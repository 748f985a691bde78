"""The API under ``/api/v1``: jobs, tasks, agents, datasets, plans and events as JSON.

One job: routes, each a call of the runtime. Scopes are those of the gRPC calls of the same name.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, Header, Query, Request, Response

from fabric.control import control_pb2 as pb
from fabric.control.api import ControlApi
from fabric.coordinator.rest.access import Access
from fabric.coordinator.rest.models import (
    Agent,
    Checkpoint,
    Dataset,
    Event,
    Job,
    JobDetail,
    Jobs,
    Plan,
    Problem,
    Task,
    states_of,
)
from fabric.coordinator.rest.submission import BODY, request_of, while_wanted
from fabric.coordinator.service.auth import SCOPES
from fabric.coordinator.submit.idempotency import own_key
from fabric.coordinator.submit.plan_pool import PlanPool
from fabric.errors import NotFoundError

State = Literal["queued", "running", "finished", "failed", "cancelled", "released"]
Limit = Annotated[int, Query(ge=1, le=1000, description="Jobs of a page.")]
Before = Annotated[str, Query(max_length=400, description="`next` of the page before.")]
States = Annotated[list[State] | None, Query(description="Only jobs of these states.")]
Last = Annotated[int, Query(ge=1, le=10_000, description="So many of the newest.")]
Lost = Annotated[bool, Query(description="Also those that were lost lately, as `failed`.")]
Name = Annotated[str, Query(max_length=256)]
Parallelism = Annotated[int, Query(ge=0, le=1 << 15)]
Key = Annotated[
    str,
    Header(alias="Idempotency-Key", max_length=256, description="The same key, the same job."),
]
FromPath = Annotated[str, Body(embed=True, max_length=4096, description="Node to begin with.")]


def router(control: ControlApi, access: Access, planning: PlanPool) -> APIRouter:
    """The routes over `control`; plans are prepared in `planning`."""
    api = APIRouter(
        prefix="/api/v1",
        responses={
            code: {"model": Problem, "description": what}
            for code, what in (
                (400, "It can't be done so."), (401, "No token, or a wrong one."),
                (403, "The token's scope does not suffice."), (404, "There is no such thing."),
                (503, "The coordinator can't answer now."),
            )
        },
    )  # fmt: skip
    _jobs(api, control, access)
    _submit(api, control, access, planning)
    _one_job(api, control, access)
    _changes(api, control, access)
    _agents(api, control, access)
    _datasets(api, control, access)
    return api


def may(access: Access, call: str) -> dict[str, Any]:
    """Arguments of a route that needs the scope of the gRPC call of that name."""
    scope = SCOPES[call]
    return {
        "dependencies": [Depends(access.needs(scope))],
        "description": f"Needs a token of scope `{scope}`.",
    }


def _jobs(api: APIRouter, control: ControlApi, access: Access) -> None:
    @api.get("/jobs", summary="List jobs, newest first", tags=["jobs"], **may(access, "ListJobs"))
    def list_jobs(
        response: Response,
        request: Request,
        limit: Limit = 100,
        before: Before = "",
        state: States = None,
    ) -> Jobs:
        asked = pb.ListRequest(limit=limit, before=before, states=states_of(state or ()))
        told = control.list_jobs(asked)
        if told.next:
            url = request.url.include_query_params(before=told.next)
            response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
        jobs = [Job.of(job) for job in reversed(told.jobs)]
        return Jobs(jobs=jobs, next=told.next or None)


def _submit(api: APIRouter, control: ControlApi, access: Access, planning: PlanPool) -> None:
    @api.post(
        "/jobs",
        summary="Submit a plan",
        tags=["jobs"],
        status_code=201,
        openapi_extra=BODY,
        **may(access, "Submit"),
    )
    async def submit(
        request: Request,
        response: Response,
        name: Name = "",
        parallelism: Parallelism = 0,
        key: Key = "",
    ) -> JobDetail:
        content_type = request.headers.get("content-type", "")
        asked = request_of(await request.body(), content_type, name, parallelism, own_key(key))
        told = await while_wanted(request, planning.answer(control.submit, asked))
        response.headers["Location"] = f"/api/v1/jobs/{told.job_id}"
        return JobDetail.of(told)


def _one_job(api: APIRouter, control: ControlApi, access: Access) -> None:
    @api.get("/jobs/{job_id}", summary="One job", tags=["jobs"], **may(access, "Watch"))
    def get_job(job_id: str) -> JobDetail:
        return JobDetail.of(status_of(control, job_id))

    @api.get("/jobs/{job_id}/tasks", summary="Its tasks", tags=["jobs"], **may(access, "ListTasks"))
    def tasks(job_id: str) -> list[Task]:
        told = control.list_tasks(pb.JobRequest(job_id=job_id))
        return [Task.of(task) for task in told.tasks]

    @api.get(
        "/jobs/{job_id}/checkpoints",
        summary="Its checkpoints, of a stream",
        tags=["jobs"],
        **may(access, "ListCheckpoints"),
    )
    def checkpoints(job_id: str) -> list[Checkpoint]:
        told = control.list_checkpoints(pb.CheckpointsRequest(job_id=job_id))
        return [Checkpoint.of(one) for one in told.checkpoints]

    @api.get("/jobs/{job_id}/plan", summary="Its plan", tags=["jobs"], **may(access, "JobPlan"))
    def plan(job_id: str) -> Plan:
        return Plan.of(control.job_plan(pb.JobRequest(job_id=job_id)))

    @api.get(
        "/jobs/{job_id}/plan.svg",
        summary="Its plan as a picture",
        tags=["jobs"],
        response_class=Response,
        responses={200: {"content": {"image/svg+xml": {}}}},
        **may(access, "JobPlan"),
    )
    def picture(job_id: str) -> Response:
        told = control.job_plan(pb.JobRequest(job_id=job_id))
        return Response(told.svg, media_type="image/svg+xml")

    @api.get(
        "/jobs/{job_id}/events",
        summary="What happened to it",
        tags=["jobs"],
        **may(access, "ListEvents"),
    )
    def job_events(job_id: str, last: Last = 1000) -> list[Event]:
        status_of(control, job_id)  # of an unknown job there is nothing to tell
        return _events(control, job_id, last)


def _changes(api: APIRouter, control: ControlApi, access: Access) -> None:
    @api.post("/jobs/{job_id}/cancel", summary="Stop it", tags=["jobs"], **may(access, "Cancel"))
    def cancel(job_id: str) -> JobDetail:
        return JobDetail.of(control.cancel(pb.JobRequest(job_id=job_id)))

    @api.post(
        "/jobs/{job_id}/restart",
        summary="Run it again, from a node on",
        tags=["jobs"],
        **may(access, "Restart"),
    )
    def restart(job_id: str, from_path: FromPath = "") -> JobDetail:
        asked = pb.RestartRequest(job_id=job_id, from_path=from_path)
        return JobDetail.of(control.restart(asked))

    @api.post(
        "/jobs/{job_id}/release",
        summary="Drop its partitions",
        tags=["jobs"],
        **may(access, "Release"),
    )
    def release(job_id: str) -> JobDetail:
        return JobDetail.of(control.release(pb.JobRequest(job_id=job_id)))


def _agents(api: APIRouter, control: ControlApi, access: Access) -> None:
    @api.get("/agents", summary="List agents", tags=["agents"], **may(access, "ListAgents"))
    def list_agents(lost: Lost = False) -> list[Agent]:
        return [Agent.of(agent) for agent in control.list_agents(pb.ListRequest(lost=lost)).agents]

    @api.get(
        "/agents/{agent_id}", summary="One agent", tags=["agents"], **may(access, "ListAgents")
    )
    def get_agent(agent_id: str) -> Agent:
        return Agent.of(agent_of(control, agent_id))

    @api.post(
        "/agents/{agent_id}/drain",
        summary="Give it no further tasks, move what it holds",
        tags=["agents"],
        **may(access, "Drain"),
    )
    def drain(agent_id: str) -> Agent:
        return Agent.of(control.drain(pb.AgentRequest(agent_id=agent_id)))

    @api.delete(
        "/agents/{agent_id}/drain", summary="Undo that", tags=["agents"], **may(access, "Undrain")
    )
    def undo(agent_id: str) -> Agent:
        return Agent.of(control.undrain(pb.AgentRequest(agent_id=agent_id)))

    @api.get("/events", summary="What happened", tags=["events"], **may(access, "ListEvents"))
    def events(last: Last = 1000) -> list[Event]:
        return _events(control, "", last)


def _datasets(api: APIRouter, control: ControlApi, access: Access) -> None:
    @api.get("/datasets", summary="List datasets", tags=["datasets"], **may(access, "Locate"))
    def list_datasets() -> list[Dataset]:
        told = control.dataset(pb.DatasetRequest(list=pb.DatasetList()))
        return [Dataset.of(location, set(told.addresses)) for location in told.datasets]


def status_of(control: ControlApi, job_id: str) -> pb.JobStatus:
    """A job's status now; `NotFoundError` when it is unknown."""
    return next(iter(control.watch(pb.JobRequest(job_id=job_id))))


def agent_of(control: ControlApi, agent_id: str) -> pb.AgentStatus:
    """An agent's status now; `NotFoundError` when it is unknown."""
    for agent in control.list_agents(pb.ListRequest(lost=True)).agents:
        if agent.agent_id == agent_id:
            return agent
    raise NotFoundError(f"there is no agent {agent_id[:128]!r}; `fabric agents` lists them")


def _events(control: ControlApi, job_id: str, last: int) -> list[Event]:
    told = control.list_events(pb.EventsRequest(job_id=job_id, last=last))
    return [Event.of(event) for event in told.events]
