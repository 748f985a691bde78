"""The API under ``/api/v1``: jobs, agents, datasets, savepoints, streams and events as JSON.

One job: routes, each a call of the runtime. Scopes are those of the gRPC calls of the same name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Body, Depends, Header, Query, Request, Response
from pydantic import Field

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
    Savepoint,
    Stream,
    Taken,
    Task,
    states_of,
)
from fabric.coordinator.rest.submission import BODY, request_of, while_wanted
from fabric.coordinator.service.auth import SCOPES
from fabric.coordinator.submit.idempotency import own_key
from fabric.coordinator.submit.plan_pool import PlanPool
from fabric.errors import NotFoundError
from fabric.ids import new_id

F = TypeVar("F", bound=Callable[..., Any])
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
AskKey = Annotated[
    str,
    Header(alias="Idempotency-Key", max_length=128, description="The same key, the same request."),
]
Then = Annotated[
    Literal["go on", "stop", "drain"],
    Body(description="What follows: the stream goes on, stops there, or its sources end."),
]
KeepAs = Annotated[
    str, Body(max_length=128, description="Keep it under this name, as a savepoint.")
]
Again = Annotated[
    bool, Body(description="It was asked for before, perhaps of an earlier coordinator.")
]
Few = Annotated[int, Field(ge=0, le=1 << 15)]
Tasks = Annotated[
    Few | Literal["slots"],
    Body(embed=True, description="Of each stage; slots: as many as there are slots."),
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
    routes = _Routes(api, access)
    _jobs(routes, control)
    _submit(routes, control, planning)
    _one_job(routes, control)
    _changes(routes, control, planning)
    _agents(routes, control)
    _datasets(routes, control)
    _streams(routes, control)
    return api


class _Routes:
    """Routes of `api`; each needs the scope of the gRPC call that is named."""

    def __init__(self, api: APIRouter, access: Access) -> None:
        self._api, self._access = api, access

    def add(self, route: str, call: str, summary: str, **more: Any) -> Callable[[F], F]:
        """What makes a function answer `route`, such as ``GET /jobs``."""
        method, path = route.split(" ")
        scope = SCOPES[call]
        return self._api.api_route(
            path,
            methods=[method],
            summary=summary,
            tags=[path.split("/")[1]],
            dependencies=[Depends(self._access.needs(scope))],
            description=f"Needs a token of scope `{scope}`.",
            **more,
        )


def _jobs(routes: _Routes, control: ControlApi) -> None:
    @routes.add("GET /jobs", "ListJobs", "List jobs, newest first")
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


def _submit(routes: _Routes, control: ControlApi, planning: PlanPool) -> None:
    @routes.add("POST /jobs", "Submit", "Submit a plan", status_code=201, openapi_extra=BODY)
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


def _one_job(routes: _Routes, control: ControlApi) -> None:
    @routes.add("GET /jobs/{job_id}", "Watch", "One job")
    def get_job(job_id: str) -> JobDetail:
        return JobDetail.of(status_of(control, job_id))

    @routes.add("GET /jobs/{job_id}/tasks", "ListTasks", "Its tasks")
    def tasks(job_id: str) -> list[Task]:
        told = control.list_tasks(pb.JobRequest(job_id=job_id))
        return [Task.of(task) for task in told.tasks]

    @routes.add("GET /jobs/{job_id}/checkpoints", "ListCheckpoints", "Its checkpoints, of a stream")
    def checkpoints(job_id: str) -> list[Checkpoint]:
        told = control.list_checkpoints(pb.CheckpointsRequest(job_id=job_id))
        return [Checkpoint.of(one) for one in told.checkpoints]

    @routes.add("GET /jobs/{job_id}/plan", "JobPlan", "Its plan")
    def plan(job_id: str) -> Plan:
        return Plan.of(control.job_plan(pb.JobRequest(job_id=job_id)))

    @routes.add(
        "GET /jobs/{job_id}/plan.svg",
        "JobPlan",
        "Its plan as a picture",
        response_class=Response,
        responses={200: {"content": {"image/svg+xml": {}}}},
    )
    def picture(job_id: str) -> Response:
        told = control.job_plan(pb.JobRequest(job_id=job_id))
        return Response(told.svg, media_type="image/svg+xml")

    @routes.add("GET /jobs/{job_id}/events", "ListEvents", "What happened to it")
    def job_events(job_id: str, last: Last = 1000) -> list[Event]:
        status_of(control, job_id)  # of an unknown job there is nothing to tell
        return _events(control, job_id, last)


def _changes(routes: _Routes, control: ControlApi, planning: PlanPool) -> None:
    @routes.add("POST /jobs/{job_id}/cancel", "Cancel", "Stop it")
    def cancel(job_id: str) -> JobDetail:
        return JobDetail.of(control.cancel(pb.JobRequest(job_id=job_id)))

    @routes.add("POST /jobs/{job_id}/restart", "Restart", "Run it again, from a node on")
    def restart(job_id: str, from_path: FromPath = "") -> JobDetail:
        asked = pb.RestartRequest(job_id=job_id, from_path=from_path)
        return JobDetail.of(control.restart(asked))

    @routes.add("POST /jobs/{job_id}/rescale", "Rescale", "Give a stream another number of tasks")
    async def rescale(request: Request, job_id: str, parallelism: Tasks) -> JobDetail:
        follows = parallelism == "slots"
        n_tasks = 0 if isinstance(parallelism, str) else parallelism
        asked = pb.RescaleRequest(job_id=job_id, parallelism=n_tasks, reactive=follows)
        return JobDetail.of(await while_wanted(request, planning.answer(control.rescale, asked)))

    @routes.add(
        "POST /jobs/{job_id}/checkpoints",
        "TakeCheckpoint",
        "Have a stream take a checkpoint: to keep it, to stop there, or to drain it",
        status_code=202,
    )
    def take_checkpoint(
        job_id: str,
        savepoint: KeepAs = "",
        then: Then = "go on",
        again: Again = False,
        key: AskKey = "",
    ) -> Taken:
        asked = pb.TakeCheckpointRequest(
            job_id=job_id, key=key or new_id("ask"), savepoint=savepoint, then=then, again=again
        )
        return Taken.of(asked.key, control.take_checkpoint(asked))

    @routes.add("POST /jobs/{job_id}/release", "Release", "Drop its partitions")
    def release(job_id: str) -> JobDetail:
        return JobDetail.of(control.release(pb.JobRequest(job_id=job_id)))


def _agents(routes: _Routes, control: ControlApi) -> None:
    @routes.add("GET /agents", "ListAgents", "List agents")
    def list_agents(lost: Lost = False) -> list[Agent]:
        return [Agent.of(agent) for agent in control.list_agents(pb.ListRequest(lost=lost)).agents]

    @routes.add("GET /agents/{agent_id}", "ListAgents", "One agent")
    def get_agent(agent_id: str) -> Agent:
        return Agent.of(agent_of(control, agent_id))

    @routes.add(
        "POST /agents/{agent_id}/drain", "Drain", "Give it no further tasks, move what it holds"
    )
    def drain(agent_id: str) -> Agent:
        return Agent.of(control.drain(pb.AgentRequest(agent_id=agent_id)))

    @routes.add("DELETE /agents/{agent_id}/drain", "Undrain", "Undo that")
    def undo(agent_id: str) -> Agent:
        return Agent.of(control.undrain(pb.AgentRequest(agent_id=agent_id)))

    @routes.add("GET /events", "ListEvents", "What happened")
    def events(last: Last = 1000) -> list[Event]:
        return _events(control, "", last)


def _datasets(routes: _Routes, control: ControlApi) -> None:
    @routes.add("GET /datasets", "Locate", "List datasets")
    def list_datasets() -> list[Dataset]:
        told = control.dataset(pb.DatasetRequest(list=pb.DatasetList()))
        return [Dataset.of(location, set(told.addresses)) for location in told.datasets]


def _streams(routes: _Routes, control: ControlApi) -> None:
    @routes.add("GET /savepoints", "ListSavepoints", "List savepoints, oldest first")
    def list_savepoints() -> list[Savepoint]:
        told = control.list_savepoints(pb.SavepointsRequest())
        return [Savepoint.of(one) for one in told.savepoints]

    @routes.add("DELETE /savepoints/{name:path}", "DeleteSavepoint", "Delete one; what it was")
    def delete_savepoint(name: str) -> list[Savepoint]:
        told = control.delete_savepoint(pb.SavepointsRequest(name=name))
        return [Savepoint.of(one) for one in told.savepoints]

    @routes.add("GET /streams", "ListStreams", "List streams that have a name")
    def list_streams() -> list[Stream]:
        return [Stream.of(one) for one in control.list_streams(pb.StreamsRequest()).streams]

    @routes.add(
        "DELETE /streams/{name:path}", "DropStream", "Forget one, with its checkpoints; what it was"
    )
    def drop_stream(name: str) -> list[Stream]:
        told = control.drop_stream(pb.StreamsRequest(name=name))
        return [Stream.of(one) for one in told.streams]


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
