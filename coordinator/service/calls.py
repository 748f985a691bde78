"""The coordinator's gRPC server.

One job: carry calls to the runtime and errors back. Calls that may take time run in threads, so
the event loop (uvloop) always answers; streams cost no thread. Nothing but `FabricError` details
leaves: an unexpected error is logged here and told as "internal". Who may call what: `auth.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from fabric.config import TLS
from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED
from fabric.control.control_pb2_grpc import ControlServicer
from fabric.control.rpc import status_of
from fabric.control.texts import check_texts
from fabric.coordinator.runtime.runtime import WATCH_S, CoordinatorRuntime, Log
from fabric.coordinator.service.front import Front
from fabric.coordinator.submit.idempotency import own_key
from fabric.coordinator.submit.plan_pool import Planning
from fabric.errors import (
    AuthError,
    ConfigError,
    FabricError,
    FencedError,
    NotLeaderError,
    PeerLostError,
)
from fabric.security.callers import current, who
from fabric.security.tls import check_clear

Request = TypeVar("Request", bound=Message)
Reply = TypeVar("Reply")

_EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]
THREADS = 16
QUEUE_MAX = 10_000
"""Messages waiting for one agent; one that reads no more than that is given up."""


class ControlService(ControlServicer):
    """The servicer; `close` lets its threads go."""

    def __init__(
        self,
        runtime: CoordinatorRuntime | Front,
        log: Log,
        planning: Planning,
        *,
        encrypted: bool = False,
    ) -> None:
        """`encrypted`: it is reached by TLS, and so must be whoever attaches."""
        front = runtime if isinstance(runtime, Front) else Front(runtime)
        self._runtime: Any = front
        self._front = front
        self._log, self._encrypted = log, encrypted
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="control")
        self._planning = planning

    def close(self) -> None:
        """Wait for the calls under way."""
        self._threads.shutdown(wait=True)

    async def Submit(self, request: pb.SubmitRequest, context: Any) -> pb.JobStatus:
        """See `ControlApi.submit`."""

        def submit(asked: pb.SubmitRequest) -> pb.JobStatus:
            asked.client_key = own_key(asked.client_key)
            return self._runtime.submit(asked)  # type: ignore[no-any-return]

        return await self._guarded(context, self._planning.answer(_bounded(submit), request))

    async def Explain(self, request: pb.SubmitRequest, context: Any) -> pb.ExplainReply:
        """See `ControlApi.explain`."""
        planned = self._planning.answer(_bounded(self._runtime.explain), request)
        return await self._guarded(context, planned)

    async def Cancel(self, request: pb.JobRequest, context: Any) -> pb.JobStatus:
        """See `ControlApi.cancel`."""
        return await self._in_thread(context, self._runtime.cancel, request)

    async def Release(self, request: pb.JobRequest, context: Any) -> pb.JobStatus:
        """See `ControlApi.release`."""
        return await self._in_thread(context, self._runtime.release, request)

    async def Restart(self, request: pb.RestartRequest, context: Any) -> pb.JobStatus:
        """See `ControlApi.restart`."""
        return await self._in_thread(context, self._runtime.restart, request)

    async def ListTasks(self, request: pb.JobRequest, context: Any) -> pb.TaskList:
        """See `ControlApi.list_tasks`."""
        return await self._in_thread(context, self._runtime.list_tasks, request)

    async def ListCheckpoints(
        self, request: pb.CheckpointsRequest, context: Any
    ) -> pb.CheckpointList:
        """See `ControlApi.list_checkpoints`."""
        return await self._in_thread(context, self._runtime.list_checkpoints, request)

    async def JobPlan(self, request: pb.JobRequest, context: Any) -> pb.ExplainReply:
        """See `ControlApi.job_plan`."""
        return await self._in_thread(context, self._runtime.job_plan, request)

    async def ListEvents(self, request: pb.EventsRequest, context: Any) -> pb.EventList:
        """See `ControlApi.list_events`."""
        return await self._in_thread(context, self._runtime.list_events, request)

    async def Drain(self, request: pb.DrainRequest, context: Any) -> pb.AgentStatus:
        """See `ControlApi.drain`."""
        return await self._in_thread(context, self._runtime.drain, request)

    async def ListJobs(self, request: pb.ListRequest, context: Any) -> pb.JobList:
        """See `ControlApi.list_jobs`."""
        return await self._in_thread(context, self._runtime.list_jobs, request)

    async def ListAgents(self, request: pb.ListRequest, context: Any) -> pb.AgentList:
        """See `ControlApi.list_agents`."""
        return await self._in_thread(context, self._runtime.list_agents, request)

    async def Locate(self, request: pb.LocateRequest, context: Any) -> pb.Locations:
        """See `ControlApi.locate`."""
        return await self._in_thread(context, self._runtime.locate, request)

    async def Dataset(self, request: pb.DatasetRequest, context: Any) -> pb.DatasetReply:
        """See `ControlApi.dataset`."""
        caller = current()
        if request.HasField("begin") and caller and not caller.claims.is_agent:
            request.begin.subject = caller.claims.key_owner  # agents say whose the key is
        if request.HasField("view") and caller and not caller.claims.is_agent:
            raise AuthError("only agents say where views are")
        return await self._in_thread(context, self._runtime.dataset, request)

    async def Depose(self, request: pb.Leadership, context: Any) -> pb.Leadership:
        """Another coordinator leads."""
        self._front.depose(request.epoch)
        return request

    async def Watch(self, request: pb.JobRequest, context: Any) -> None:
        """See `ControlApi.watch`."""
        await self._guarded(context, self._watch(request, context))

    async def Attach(self, requests: Any, context: Any) -> None:
        """One agent's link, until either side ends it."""
        await self._guarded(context, self._attach(context))

    async def _in_thread(
        self, context: Any, call: Callable[[Request], Reply], request: Request
    ) -> Reply:
        loop = asyncio.get_running_loop()
        run = copy_context().run  # it knows who calls
        answer = loop.run_in_executor(self._threads, run, _bounded(call), request)
        return await self._guarded(context, answer)

    async def _guarded(self, context: Any, work: Awaitable[Reply]) -> Reply:
        """The result of `work`; a failure ends the call with its status."""
        try:
            return await work
        except FencedError as error:  # nothing was done, and another coordinator would
            failure: Exception = NotLeaderError(error.message)
        except FabricError as error:
            failure = error
        except DecodeError:
            failure = ConfigError("a message of this call is damaged, or of another version")
        except Exception as error:
            self._log("control call failed", {"error": repr(error)})
            failure = error
        code, text, trailing = status_of(failure)
        await context.abort(code, text, trailing)
        raise failure  # abort has raised already

    def _check_address(self, hello: pb.Hello) -> None:
        """Refuse an agent that others would have to reach in the clear."""
        address = hello.address
        if not address.startswith("grpc") or address.startswith(TLS):
            return
        try:
            if self._encrypted:
                raise AuthError(
                    f"agent {hello.agent_id[:128]!r} serves its rows without TLS, at "
                    f"{address[:200]}, and this fabric has TLS; give it tls_certificate and "
                    "tls_key (FABRIC_AGENT_TLS_CERTIFICATE, FABRIC_AGENT_TLS_KEY)"
                )
            check_clear(address)
        except AuthError as error:
            self._log("agent refused", {"who": who(), "error": error.message})
            raise

    async def _watch(self, request: pb.JobRequest, context: Any) -> None:
        check_texts(request)
        loop, runtime = asyncio.get_running_loop(), self._front.current
        changed = asyncio.Event()
        end = runtime.subscribe(request.job_id, _thread_safe(loop, changed.set))
        try:
            while True:
                changed.clear()
                status = runtime.status(request)
                await context.write(status)
                if status.state in ENDED:
                    return
                try:
                    await asyncio.wait_for(changed.wait(), WATCH_S)
                except TimeoutError:
                    continue
        finally:
            end()

    async def _attach(self, context: Any) -> None:
        first = await context.read()
        if first is _EOF or first.WhichOneof("kind") != "hello":
            raise ConfigError("the first message of an agent must be its hello")
        agent_id, runtime = first.hello.agent_id, self._front.current
        self._check_address(first.hello)
        # A write that is cancelled before the initial metadata are out leaves a call of grpc.aio
        # without an end: it sends them once more with its status, which gRPC refuses.
        await context.send_initial_metadata(())
        line = _Line(asyncio.get_running_loop(), context)
        loop = asyncio.get_running_loop()
        session = await loop.run_in_executor(
            self._threads, runtime.attach, agent_id, first.hello, line.send, line.disconnect
        )
        writer = asyncio.create_task(line.write())
        reader = asyncio.create_task(_read(runtime, agent_id, session, context))
        try:
            done, _ = await asyncio.wait((reader, writer), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            runtime.detach(agent_id, "its link broke", session)
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)
        if line.given_up is not None:
            raise PeerLostError(line.given_up)


async def _read(runtime: CoordinatorRuntime, agent_id: str, session: int, context: Any) -> None:
    while (message := await context.read()) is not _EOF:
        runtime.receive(agent_id, message, session)


def _bounded(call: Callable[[Request], Reply]) -> Callable[[Request], Reply]:
    """`call` behind the check of how long its texts are."""

    def checked(request: Request) -> Reply:
        check_texts(request)
        return call(request)

    return checked


class _Line:
    """Messages to one agent; filled from the runtime's thread, emptied in the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Any) -> None:
        self._context = context
        self._queue: asyncio.Queue[pb.CoordinatorMessage | None] = asyncio.Queue()
        self._put = _thread_safe(loop, self._queue.put_nowait)
        self.given_up: str | None = None

    def send(self, message: pb.CoordinatorMessage) -> None:
        """Queue one message; never blocks."""
        if self._queue.qsize() > QUEUE_MAX:
            self.disconnect("the agent does not read its messages")
        elif self.given_up is None:
            self._put(message)

    def disconnect(self, reason: str) -> None:
        """End the link from this side."""
        self.given_up = reason
        self._put(None)

    async def write(self) -> None:
        """Send what is queued until the link is given up."""
        while (message := await self._queue.get()) is not None:
            await self._context.write(message)


def _thread_safe(
    loop: asyncio.AbstractEventLoop, call: Callable[..., object]
) -> Callable[..., None]:
    """`call`, to be made from any thread; forgotten once the loop is closed."""

    def later(*args: object) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(call, *args)

    return later
