"""Pages for people, made on the server.

One job: routes and templates. No script and nothing from elsewhere: a page that shows what still
moves asks for itself again. Every text is escaped by the templates; the one thing that is not is
the plan's picture, whose own texts were escaped when it was drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, FastAPI, Query, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED, ControlApi
from fabric.coordinator.rest.access import Access
from fabric.coordinator.rest.api import Before, State, status_of
from fabric.coordinator.rest.models import (
    Agent,
    Checkpoint,
    Event,
    Job,
    JobDetail,
    Plan,
    Task,
    states_of,
)
from fabric.coordinator.rest.problems import status_of as http_status
from fabric.errors import AuthError, FabricError, NotFoundError
from fabric.security.callers import calling

TEMPLATES = Path(__file__).parent / "templates"
AGAIN_S = 2
JOBS_SHOWN, EVENTS_SHOWN, TASKS_SHOWN = 50, 50, 500
FORM_BYTES_MAX = 16 << 10
DEFAULT_TOKEN_FILE = "~/.fabric/token"
"""What strangers are shown: where a fabric lies is not their business."""
_STATES = ("queued", "running", "finished", "failed", "cancelled", "released")
Notice = Annotated[str, Query(max_length=2000)]


def router(control: ControlApi, access: Access, app: FastAPI, *, token_file: str) -> APIRouter:
    """The pages over `control`."""
    made = APIRouter(include_in_schema=False)
    pages = _Pages(control, access)
    _doors(made, pages, access)
    _look(made, pages, control, app, token_file)
    _change(made, pages, control)
    return made


class _Pages:
    """Templates, and who reads them."""

    def __init__(self, control: ControlApi, access: Access) -> None:
        self.control, self.access = control, access
        self._templates = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["moment"] = moment

    def page(self, name: str, status: int = 200, **values: Any) -> HTMLResponse:
        """The template `name`, filled."""
        known = {"reader": "", "here": "", "again_s": 0, "notice": "", "problem": "", **values}
        return HTMLResponse(self._templates.get_template(name).render(known), status)

    def shown(self, request: Request, make: Callable[[str], HTMLResponse]) -> Response:
        """What `make` gives for the reader, or the way to log in, or what is wrong."""
        try:
            reader = self.access.page(request).subject
        except AuthError:
            return RedirectResponse("/login", 303)
        try:
            return make(reader)
        except FabricError as error:
            return self.wrong(error, reader)

    def wrong(self, error: FabricError, reader: str = "") -> HTMLResponse:
        """A page that tells an error."""
        return self.page(
            "wrong.html",
            http_status(error),
            kind=type(error).__name__,
            message=error.message,
            reader=reader,
        )

    async def changed(
        self, request: Request, back: str, change: Callable[[dict[str, str]], object]
    ) -> Response:
        """Do what a form asks for and go `back`, with what went wrong."""
        try:
            given = await form(request)
            caller = self.access.form(request, given.get("word", ""))
        except FabricError as error:
            return self.wrong(error)
        try:
            with calling(caller):
                await run_in_threadpool(change, given)
        except FabricError as error:
            return RedirectResponse(f"{back}?notice={quote(str(error)[:1000])}", 303)
        return RedirectResponse(back, 303)


def _doors(made: APIRouter, pages: _Pages, access: Access) -> None:
    @made.get("/")
    def root() -> Response:
        return RedirectResponse("/jobs", 303)

    @made.get("/style.css")
    def style() -> Response:
        return FileResponse(TEMPLATES / "style.css", media_type="text/css")

    @made.get("/login")
    def login() -> Response:
        return pages.page("login.html")

    @made.post("/login")
    async def enter(request: Request) -> Response:
        token = (await form(request)).get("token", "").strip()
        answer = RedirectResponse("/jobs", 303)
        try:
            access.log_in(request, token, answer)
        except AuthError as error:
            return pages.page("login.html", 401, problem=error.message)
        return answer

    @made.post("/logout")
    def leave(request: Request) -> Response:
        answer = RedirectResponse("/login", 303)
        access.log_out(request, answer)
        return answer


def _look(
    made: APIRouter, pages: _Pages, control: ControlApi, app: FastAPI, token_file: str
) -> None:
    @made.get("/jobs")
    def jobs(request: Request, before: Before = "", state: State | None = None) -> Response:
        return pages.shown(request, lambda reader: _jobs_page(pages, reader, before, state))

    @made.get("/jobs/{job_id}")
    def job(request: Request, job_id: str, notice: Notice = "") -> Response:
        word = pages.access.word(request)
        return pages.shown(request, lambda reader: _job_page(pages, reader, job_id, notice, word))

    @made.get("/agents")
    def agents(request: Request, notice: Notice = "", lost: bool = False) -> Response:
        def make(reader: str) -> HTMLResponse:
            told = control.list_agents(pb.ListRequest(lost=True)).agents
            shown = [agent for agent in told if lost or agent.state != "failed"]
            return pages.page(
                "agents.html",
                reader=reader,
                here="/agents",
                again_s=0 if notice else AGAIN_S,
                notice=notice,
                word=pages.access.word(request),
                agents=[Agent.of(agent) for agent in shown],
                lost=lost,
                n_lost=sum(agent.state == "failed" for agent in told),
            )

        return pages.shown(request, make)

    @made.get("/docs")
    def docs(request: Request) -> Response:
        base = str(request.base_url).rstrip("/")
        values = described(app.openapi())
        reader = pages.access.reader(request)
        values["token_file"] = token_file if reader else DEFAULT_TOKEN_FILE
        return pages.page("docs.html", here="/docs", base=base, reader=reader, **values)


def _change(made: APIRouter, pages: _Pages, control: ControlApi) -> None:
    calls: dict[str, Callable[[str, dict[str, str]], object]] = {
        "cancel": lambda job, _: control.cancel(pb.JobRequest(job_id=job)),
        "restart": lambda job, given: control.restart(
            pb.RestartRequest(job_id=job, from_path=given.get("from_path", ""))
        ),
        "release": lambda job, _: control.release(pb.JobRequest(job_id=job)),
    }

    @made.post("/jobs/{job_id}/{verb}")
    async def job(request: Request, job_id: str, verb: str) -> Response:
        if verb not in calls:
            raise NotFoundError("there is no such page")
        back = f"/jobs/{quote(job_id, safe='')}"
        return await pages.changed(request, back, lambda given: calls[verb](job_id, given))

    @made.post("/agents/{agent_id}/{verb}")
    async def agent(request: Request, agent_id: str, verb: str) -> Response:
        if verb not in ("drain", "undrain"):
            raise NotFoundError("there is no such page")
        ask = control.undrain if verb == "undrain" else control.drain
        asked = pb.AgentRequest(agent_id=agent_id)
        return await pages.changed(request, "/agents", lambda _: ask(asked))


def _jobs_page(pages: _Pages, reader: str, before: str, state: str | None) -> HTMLResponse:
    states = states_of([state] if state else [one for one in _STATES if one != "cancelled"])
    asked = pb.ListRequest(limit=JOBS_SHOWN, before=before, states=states)
    told = pages.control.list_jobs(asked)
    events = pages.control.list_events(pb.EventsRequest(last=EVENTS_SHOWN)).events
    return pages.page(
        "jobs.html",
        reader=reader,
        here="/jobs",
        again_s=0 if before else AGAIN_S,
        jobs=[Job.of(job) for job in reversed(told.jobs)],
        next=told.next,
        state=state,
        states=_STATES,
        events=[Event.of(event) for event in reversed(events)],
    )


def _job_page(pages: _Pages, reader: str, job_id: str, notice: str, word: str) -> HTMLResponse:
    control, asked = pages.control, pb.JobRequest(job_id=job_id)
    status = status_of(control, job_id)
    tasks, plan = _known(control.list_tasks, asked), _known(control.job_plan, asked)
    events = control.list_events(pb.EventsRequest(job_id=job_id, last=EVENTS_SHOWN)).events
    attempts = [] if tasks is None else tasks.tasks
    detail = JobDetail.of(status)
    kept = _known(control.list_checkpoints, pb.CheckpointsRequest(job_id=job_id))
    return pages.page(
        "job.html",
        reader=reader,
        again_s=0 if status.state in ENDED or notice else AGAIN_S,
        notice=notice,
        word=word,
        job=detail,
        streams=any(stage.watermark for stage in detail.stages),
        checkpoints=[Checkpoint.of(one) for one in reversed(kept.checkpoints)] if kept else [],
        tasks=[Task.of(task) for task in attempts[:TASKS_SHOWN]],
        n_more=max(0, len(attempts) - TASKS_SHOWN),
        plan=Plan.of(plan) if plan is not None else None,
        picture=Markup(plan.svg if plan is not None else ""),
        events=[Event.of(event) for event in reversed(events)],
    )


def _known(ask: Callable[[Any], Any], request: Any) -> Any:
    """What `ask` answers, or None when it is not known any more."""
    try:
        return ask(request)
    except NotFoundError:
        return None


async def form(request: Request) -> dict[str, str]:
    """The fields of a form; `AuthError` when the body is none."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > FORM_BYTES_MAX:
            raise AuthError("the form is too long")
    fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=16)
    return {name: values[0] for name, values in fields.items()}


def described(api: dict[str, Any]) -> dict[str, Any]:
    """An OpenAPI description the way `docs.html` shows it: calls by tag, and models."""
    groups: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, calls in api["paths"].items():
        for method, call in calls.items():
            shown = {"parameters": [], "description": "", "requestBody": None, **call}
            shown["parameters"] = [{"description": "", **one} for one in shown["parameters"]]
            groups.setdefault(call["tags"][0], []).append((path, method, shown))
    models = {
        name: {
            "description": model.get("description", ""),
            "fields": [(field, _type(what)) for field, what in model["properties"].items()],
        }
        for name, model in api["components"]["schemas"].items()
        if "properties" in model
    }
    return {"api": api, "groups": list(groups.items()), "models": models}


def _type(what: dict[str, Any]) -> str:
    """A type of JSON Schema in a word or two."""
    if "anyOf" in what:
        return " or ".join(_type(one) for one in what["anyOf"])
    if "$ref" in what:
        return str(what["$ref"]).rpartition("/")[2]
    if what.get("type") == "array":
        return f"list of {_type(what['items'])}"
    return str(what.get("type", "any"))


def moment(wall_s: float) -> str:
    """A wall time as people read it.

    >>> moment(0.0)
    '1970-01-01 00:00:00 UTC'
    """
    return f"{datetime.fromtimestamp(wall_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
