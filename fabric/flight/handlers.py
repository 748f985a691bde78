"""What the native Flight server asks of Python: tokens, names, logins, actions, rows, the log.

One job: `Asked`, the face that `fabric/_cython/shuffle/flight/server.pyx` calls, each method at
most once a call and none of them for rows; `Answers` is an agent's. Errors leave as statuses by
`fabric.flight.errors.told`.

Rows of a `Backend` whose store or transport is not native come by `Adapted`, which
`fabric/_cython/shuffle/flight/handlers.pyx` calls: an agent that asks for what lies here gets every
message with its header and END events; a foreign client gets rows, which the native server cuts to
size.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple, Protocol

import pyarrow as pa

from fabric._cython.shuffle.flight import handlers as native_handlers
from fabric._cython.shuffle.flight.handlers import HandlerSet
from fabric.clock import Clock
from fabric.control import control_pb2 as pb
from fabric.errors import AuthError, ConfigError, NotFoundError
from fabric.flight.actions import Actions
from fabric.flight.backend import Backend
from fabric.flight.connections import NONCE_BYTES, TOKEN_TTL_S
from fabric.flight.descriptor import FORMS
from fabric.flight.directory import Directory
from fabric.flight.ticket import AnyRequest, DatasetRequest, Part, PartitionRequest
from fabric.ids import check_name
from fabric.security.callers import Caller, Refusals, calling, peer_of
from fabric.security.tokens import Claims, Scope, Signer, bearer
from fabric.telemetry.logs import logger

SCOPES: tuple[Scope, ...] = ("read", "write", "submit", "agent")
"""In the order of the native `Scope`: each includes the former."""

_log = logger("fabric.flight")
Items = Iterator[tuple[bytes | None, pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """What a command can be read as: paths of exchanges and datasets, as descriptors have them.

    `app_metadata` takes the place of the server's own in the info and its endpoints.
    """

    paths: tuple[tuple[str, ...], ...]
    app_metadata: bytes | None = None


class Asked(Protocol):
    """The questions; `Answers` answers them for an agent."""

    def wall_s(self) -> float:
        """The time, when it is not the machine's."""

    def verify(self, header: str) -> tuple[int, str, float]:
        """Scope (as an index of `SCOPES`), subject and expiry of an authorization header.

        It is empty when a call has none.
        """

    def refused(self, method: str, why: str, peer: str) -> None:
        """A call of `peer`, as gRPC names it, was refused: for the log."""

    def broken(self, what: str) -> None:
        """A bug: for the log, its words leave the process no other way."""

    def passed_over(self, dataset: str, partition: int, owner: str, why: str) -> None:
        """An owner could not give a partition of a dataset, and another one is asked: the log."""

    def locate(self, job: str, dataset: str) -> None:
        """Ask the coordinator about a name, and put the answer into the location table."""

    def challenge(self, agent: bytes) -> bytes:
        """A nonce for an agent that wants a token."""

    def prove(self, agent: bytes, nonce: bytes, proof: bytes) -> bytes:
        """The token of an agent that answered the challenge."""

    def login(self, user: str, password: str) -> bytes:
        """The token of who shook hands with Flight's BasicAuth."""

    def offered(self, scope: Scope) -> list[tuple[str, str]]:
        """Names and descriptions of the actions a caller may call."""

    def act(self, scope: Scope, subject: str, name: str, body: bytes) -> bytes:
        """The answer of an action."""

    def cancel(self, job: str, scope: Scope, subject: str) -> int:
        """Cancel a job; its state afterwards."""

    def command(self, scope: Scope, subject: str, command: bytes) -> CommandAnswer:
        """What a descriptor's command stands for; asked again at each poll of it."""

    def states(self, path: Sequence[str]) -> list[tuple[tuple[str, ...], str]]:
        """The states of streams below a path: their descriptors, and the datasets they are."""

    def option(self, name: str, text: str) -> Literal["", "name", "value"]:
        """What is wrong with a session option; `text` is empty unless it is a string."""


class Answers:
    """What an agent answers; never refers to its server, so that both can end."""

    def __init__(self, backend: Backend, signer: Signer, clock: Clock, actions: Actions) -> None:
        self._backend, self._signer, self._clock = backend, signer, clock
        self._actions = actions
        self._directory = Directory(backend)
        self._refusals = Refusals(lambda event, fields: _log.warning(event, **fields))

    def wall_s(self) -> float:
        """See `Asked`."""
        return self._clock.wall_s()

    def verify(self, header: str) -> tuple[int, str, float]:
        """See `Asked`."""
        if not header:
            raise AuthError("this call needs one header: authorization: Bearer <token>")
        claims = self._signer.verify(bearer(header), ["read"], self._clock.wall_s())
        return SCOPES.index(claims.scope), claims.subject, claims.expires_s

    def refused(self, method: str, why: str, peer: str = "") -> None:
        """See `Asked`."""
        self._refusals.add(method, why, peer_of(peer))

    def broken(self, what: str) -> None:
        """See `Asked`."""
        _log.error("unexpected error in a Flight call", error=what)

    def passed_over(self, dataset: str, partition: int, owner: str, why: str) -> None:
        """See `Asked`."""
        _log.warning(
            "replica passed over", dataset=dataset, partition=partition, owner=owner, reason=why
        )

    def locate(self, job: str, dataset: str) -> None:
        """See `Asked`."""
        self._directory.ask(pb.LocateRequest(job_id=job, dataset=dataset))

    def challenge(self, agent: bytes) -> bytes:
        """See `Asked`."""
        try:
            check_name(agent.decode("utf-8", "replace"), "agent id")
        except ConfigError as error:
            raise AuthError(error.message) from error
        return secrets.token_bytes(NONCE_BYTES)

    def prove(self, agent: bytes, nonce: bytes, proof: bytes) -> bytes:
        """See `Asked`."""
        self._signer.check(nonce + agent + proof, "handshake")
        now_s = self._clock.wall_s()
        return self._signer.token("agent", agent.decode(), TOKEN_TTL_S, now_s).encode()

    def login(self, user: str, password: str) -> bytes:
        """See `Asked`; the password is a token, any name will do."""
        self._signer.verify(password, ["read"], self._clock.wall_s())
        return password.encode()

    def offered(self, scope: Scope) -> list[tuple[str, str]]:
        """See `Asked`."""
        return self._actions.offered(_claims(scope))

    def act(self, scope: Scope, subject: str, name: str, body: bytes) -> bytes:
        """See `Asked`."""
        return self._actions.run(_claims(scope, subject), name, body)

    def cancel(self, job: str, scope: Scope = "submit", subject: str = "") -> int:
        """See `Asked`."""
        with calling(Caller(_claims(scope, subject))):
            return int(self._backend.control.cancel(pb.JobRequest(job_id=job)).state)

    def command(self, scope: Scope, subject: str, command: bytes) -> CommandAnswer:
        """See `Asked`."""
        raise NotFoundError(f"commands are not understood here; use a path: {FORMS}")

    def states(self, path: Sequence[str]) -> list[tuple[tuple[str, ...], str]]:
        """See `Asked`; where they are goes into the location table."""
        if self._backend.states is None:
            return []
        found = self._backend.states.find(path)
        self._backend.locations.merge(pb.Locations(datasets=[location for _, location in found]))
        return [(path, location.name) for path, location in found]

    def option(self, name: str, text: str) -> Literal["", "name", "value"]:
        """See `Asked`: clients of other systems keep what they like."""
        return ""


def _claims(scope: Scope, subject: str = "") -> Claims:
    """Of a caller whose token the gate checked."""
    return Claims(scope=scope, subject=subject, expires_s=0.0, token_id="")


class Stream(NamedTuple):
    """What DoGet answers; without a schema it is that of the location."""

    schema: pa.Schema | None
    items: Items


class Streams(Protocol):
    """Rows that Python brings."""

    def get(self, request: PartitionRequest, agent: bool) -> Stream:
        """Rows of an edge that lie here."""

    def fetch(self, address: str, request: AnyRequest) -> Stream:
        """Rows that lie with another agent."""


def adapt(handlers: HandlerSet, streams: Streams, *, get: bool = True, fetch: bool = True) -> None:
    """Set the handlers that are named to ask `streams`."""
    native_handlers.adapt(
        handlers,
        streams,
        partition_request=PartitionRequest,
        dataset_request=DatasetRequest,
        part=Part,
        get=get,
        fetch=fetch,
    )


class Adapted:
    """Streams of one backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def get(self, request: PartitionRequest, agent: bool) -> Stream:
        """Rows of an edge that lie here."""
        source = self._backend.source
        schema = source.edge_schema(request.job, request.edge) if agent else None
        messages = source.open(
            request.job, request.edge, request.partition, request.producers, agent
        )
        return Stream(schema, chain.from_iterable(iter(messages.take, [])))

    def fetch(self, address: str, request: AnyRequest) -> Stream:
        """Rows that lie with another agent."""
        transport = self._backend.transport
        if isinstance(request, DatasetRequest):
            rows = transport.read_dataset(address, request)
            return Stream(None, ((None, batch) for batch in rows))
        messages = transport.fetch(address, request)
        return Stream(None, ((None, batch) for _, batch in messages if batch is not None))
