"""The coordinator's gRPC server.

`ControlService` carries calls to whoever leads and errors back, by the table of verbs that the
proto has. Calls that may take time run in threads, so the event loop (uvloop) always answers;
streams cost no thread. Nothing but `FabricError` details
leaves: an unexpected error is logged here and told as "internal". Who may call what: `auth.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from fabric.config import TLS
from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED, SERVICE, VERBS, Verb, answer
from fabric.control.rpc import status_of, to_bytes
from fabric.control.texts import check_texts
from fabric.coordinator.runtime.driver import WATCH_S
from fabric.coordinator.runtime.log import Log
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.front import Front
from fabric.coordinator.submit.idempotency import own_key
from fabric.coordinator.submit.plan_pool import PlanPool
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

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Result = TypeVar("Result")

_EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]
THREADS = 16
QUEUE_MAX = 10_000
"""Messages waiting for one agent; one that reads no more than that is given up."""


class ControlService:
    """The calls of a server; `close` lets its threads go."""

    def __init__(self, front: Front, log: Log, planning: PlanPool, *, encrypted: bool) -> None:
        """`encrypted`: it is reached by TLS, and so must be whoever attaches."""
        self._front, self._log, self._encrypted = front, log, encrypted
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="control")
        self._planning = planning

    def close(self) -> None:
        """Wait for the calls under way."""
        self._threads.shutdown(wait=True)

    def handler(self) -> grpc.GenericRpcHandler[Any, Any]:
        """All calls of the service, to be added to a server."""
        calls = {
            verb.name: grpc.unary_unary_rpc_method_handler(
                self._behaviour(verb), verb.request.FromString, to_bytes
            )
            for verb in VERBS.values()
        }
        calls["Watch"] = grpc.unary_stream_rpc_method_handler(
            self._watches, pb.JobRequest.FromString, to_bytes
        )
        calls["Attach"] = grpc.stream_stream_rpc_method_handler(
            self._attaches, pb.AgentMessage.FromString, to_bytes
        )
        return grpc.method_handlers_generic_handler(SERVICE.full_name, calls)

    def _behaviour(self, verb: Verb) -> Callable[[Any, Context], Awaitable[Message]]:
        async def behave(request: Message, context: Context) -> Message:
            return await self._guarded(context, self._answer(verb, request))

        return behave

    async def _answer(self, verb: Verb, request: Message) -> Message:
        """The reply of whoever leads; plans have threads of their own."""

        def ask(asked: Message) -> Message:
            check_texts(asked)
            if verb.name == "Submit" and isinstance(asked, pb.SubmitRequest):
                asked.client_key = own_key(asked.client_key)
            return answer(self._front, verb.name, asked, verb.reply)

        if isinstance(request, pb.SubmitRequest | pb.RescaleRequest):
            return await self._planning.answer(ask, request)
        if isinstance(request, pb.DatasetRequest):
            _check_agents_word(request)
        if isinstance(request, pb.LocateRequest) and request.states:
            _require_agent("to read the states of streams")
        run = copy_context().run  # it knows who calls
        return await asyncio.get_running_loop().run_in_executor(self._threads, run, ask, request)

    async def _watches(self, request: pb.JobRequest, context: Context) -> None:
        await self._guarded(context, self._watch(request, context))

    async def _attaches(self, requests: Any, context: Context) -> None:
        """One agent's link, until either side ends it."""
        await self._guarded(context, self._attach(context))

    async def _guarded(self, context: Context, work: Awaitable[Result]) -> Result:
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

    async def _watch(self, request: pb.JobRequest, context: Context) -> None:
        check_texts(request)
        loop, runtime = asyncio.get_running_loop(), self._front.runtime
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

    async def _attach(self, context: Context) -> None:
        first = await context.read()
        if first is _EOF or first.WhichOneof("kind") != "hello":
            raise ConfigError("the first message of an agent must be its hello")
        agent_id, runtime = first.hello.agent_id, self._front.runtime
        self._check_address(first.hello)
        # A write that is cancelled before the initial metadata are out leaves a call of grpc.aio
        # without an end: it sends them once more with its status, which gRPC refuses.
        await context.send_initial_metadata(())
        queue = _MessageQueue(asyncio.get_running_loop(), context)
        loop = asyncio.get_running_loop()
        session = await loop.run_in_executor(
            self._threads, runtime.attach, agent_id, first.hello, queue.send, queue.disconnect
        )
        writer = asyncio.create_task(queue.write())
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
        if queue.given_up is not None:
            raise PeerLostError(queue.given_up)


async def _read(runtime: CoordinatorRuntime, agent_id: str, session: int, context: Context) -> None:
    while (message := await context.read()) is not _EOF:
        runtime.receive(agent_id, message, session)


def _check_agents_word(request: pb.DatasetRequest) -> None:
    """Agents say whose a key is, and alone where views are; of others we know whose it is."""
    caller = current()
    if caller is None or caller.claims.is_agent:
        return
    if request.HasField("begin"):
        request.begin.subject = caller.claims.key_owner
    if request.HasField("view"):
        raise AuthError("only agents say where views are")


def _require_agent(what: str) -> None:
    """Refuse what only agents may ask, in a call that others may make for other things."""
    caller = current()
    if caller is not None:
        caller.claims.require("agent", what)


class _MessageQueue:
    """Messages to one agent; filled from the runtime's thread, emptied in the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
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
