"""Handlers for the scenarios of Arrow's Flight integration clients, behind the agents' own server.

One job: what each scenario wants answered: which exchanges a command names, the rows in them, who
may log in. Tickets, infos, expiry, polls, cancelling, renewing, sessions and headers are the native
server's (`fabric/_cython/shuffle/flight`), as an agent has them. Upstream tells what a scenario
checks by its clients alone, for example Arrow C++'s `integration_tests/test_integration.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import pyarrow as pa

from fabric.clock import SystemClock
from fabric.control import control_pb2 as pb
from fabric.errors import AuthError, NotFoundError, PartitionLostError
from fabric.flight.handlers import SCOPES, CommandAnswer, Stream
from fabric.flight.locations import LocationTable
from fabric.flight.ticket import AnyRequest, PartitionRequest
from fabric.security.tokens import Scope, Signer, bearer

AGENT, JOB = "a0", "job-scenario"
NEVER_S = 4e9
"""When what has no token of its own expires: in the year 2096."""

_SIGNED = pa.schema([pa.field("number", pa.int32(), nullable=False)])
_UNSIGNED = pa.schema([pa.field("number", pa.uint32(), nullable=False)])


class Scenario:
    """Callers without a token may do anything a submitter may; there is nothing to read."""

    locations: ClassVar[str] = "none"
    own_actions: ClassVar[tuple[str, ...]] = ()
    echoed: ClassVar[tuple[str, ...]] = ()

    def __init__(self, signer: Signer) -> None:
        self.signer = signer
        self.table = LocationTable()
        self.broke: list[str] = []
        self._edges: list[str] = []
        self._rows: dict[tuple[int, int], pa.Table] = {}

    def hold(
        self,
        node: str,
        partitions: Sequence[pa.Table],
        *,
        tap: bool = False,
        ordered: bool = False,
        n_producers: int = 1,
    ) -> tuple[str, ...]:
        """Make an exchange of the scenario's job; its path. One producer of `n_producers` wrote."""
        edge = len(self._edges)
        self._edges.append(node)
        self._rows |= {(edge, number): rows for number, rows in enumerate(partitions)}
        location = pb.EdgeLocation(
            job_id=JOB,
            node_path=node,
            edge=edge,
            schema=partitions[0].schema.serialize().to_pybytes(),
            n_partitions=len(partitions),
            kind=pb.EDGE_HASH,
            mode=pb.MODE_PIPELINED if tap else pb.MODE_MATERIALISED,
            producers=[pb.Producer(task=0, attempt=0, agent_id=AGENT)],
            complete=n_producers == 1,
            n_producers=n_producers,
            ordered=ordered,
        )
        self._tell(edges=[location])
        return ("job", JOB, node)

    def drop(self) -> None:
        """Everything is gone, as after a release."""
        self._edges, self._rows = [], {}
        self._tell(dropped_jobs=[JOB])

    def _tell(self, **changes: object) -> None:
        message = pb.Locations(version=self.table.version + 1)
        message.MergeFrom(pb.Locations(**changes))  # type: ignore[arg-type]
        self.table.apply(message)

    # ---- see `fabric.flight.handlers.Streams`

    def get(self, request: PartitionRequest, agent: bool) -> Stream:
        """The rows of one partition."""
        rows = self._rows.get((request.edge, request.partition))
        if rows is None:
            raise PartitionLostError("the scenario holds no such rows", job=JOB)
        return Stream(None, ((None, batch) for batch in rows.to_batches()))

    def fetch(self, address: str, request: AnyRequest) -> Stream:
        """All rows lie here."""
        raise PartitionLostError("the scenario has one server", job=JOB)

    # ---- see `fabric.flight.handlers.Asked`

    def wall_s(self) -> float:
        """See `Asked`."""
        return SystemClock().wall_s()

    def verify(self, header: str) -> tuple[int, str, float]:
        """Anybody."""
        return SCOPES.index("submit"), "anybody", NEVER_S

    def refused(self, method: str, why: str, peer: str = "") -> None:
        """Nothing is logged."""

    def broken(self, what: str) -> None:
        """A bug: the test that runs the scenario fails by it."""
        self.broke.append(what)

    def passed_over(self, dataset: str, partition: int, owner: str, why: str) -> None:
        """There are no datasets."""

    def states(self, path: Sequence[str]) -> list[tuple[tuple[str, ...], str]]:
        """There are no streams."""
        return []

    def locate(self, job: str, dataset: str) -> None:
        """The table holds everything there is."""

    def challenge(self, agent: bytes) -> bytes:
        """There are no agents."""
        raise AuthError("no agents take part in a scenario")

    def prove(self, agent: bytes, nonce: bytes, proof: bytes) -> bytes:
        """There are no agents."""
        raise AuthError("no agents take part in a scenario")

    def login(self, user: str, password: str) -> bytes:
        """Nobody."""
        raise AuthError("the scenario has no logins")

    def offered(self, scope: Scope) -> list[tuple[str, str]]:
        """None but Flight's own."""
        return []

    def act(self, scope: Scope, subject: str, name: str, body: bytes) -> bytes:
        """None but Flight's own."""
        raise NotFoundError(f"there is no action {name!r}")

    def cancel(self, job: str, scope: Scope = "submit", subject: str = "") -> int:
        """The job stops at once, and its rows are dropped."""
        self.drop()
        return pb.JOB_CANCELLED

    def command(self, scope: Scope, subject: str, command: bytes) -> CommandAnswer:
        """What a command stands for."""
        raise NotFoundError(f"the scenario knows no command {command!r}")

    def option(self, name: str, text: str) -> Literal["", "name", "value"]:
        """Any option is good."""
        return ""


class BasicAuth(Scenario):
    """Only who logged in gets an answer: an action of no name tells who that is."""

    def verify(self, header: str) -> tuple[int, str, float]:
        """A token that `login` gave."""
        if not header:
            raise AuthError("log in first")
        claims = self.signer.verify(bearer(header), ["read"], 0.0)
        return SCOPES.index(claims.scope), claims.subject, claims.expires_s

    def login(self, user: str, password: str) -> bytes:
        """One user is known."""
        if (user, password) != ("arrow", "flight"):
            raise AuthError("the user or the password is wrong")
        return self.signer.token("read", user, NEVER_S, 0.0).encode()

    def act(self, scope: Scope, subject: str, name: str, body: bytes) -> bytes:
        """Who calls."""
        return subject.encode()


class Middleware(Scenario):
    """A header comes back with answers and with errors."""

    echoed = ("x-middleware",)

    def command(self, scope: Scope, subject: str, command: bytes) -> CommandAnswer:
        """One command succeeds."""
        if command != b"success":
            raise NotFoundError("this call is expected to fail")
        return CommandAnswer((self.hold("nothing", [pa.schema([]).empty_table()]),))


class Ordered(Scenario):
    """Three endpoints, to be read one after the other."""

    def command(self, scope: Scope, subject: str, command: bytes) -> CommandAnswer:
        """Rows in order when that was asked for."""
        parts = [_numbers(_SIGNED, power, 2 * power, 3 * power) for power in (1, 10, 100)]
        return CommandAnswer((self.hold("sorted", parts, ordered=command == b"ordered"),))


class ExpirationTime(Scenario):
    """An endpoint that can be read once, and two that can be read again until they expire."""

    own_actions = ("CancelFlightInfo", "RenewFlightEndpoint")

    def command(self, scope: Scope, subject: str, command: bytes) -> CommandAnswer:
        """A tap is there once only."""
        self.drop()
        once = self.hold("once", [_numbers(_UNSIGNED, 0)], tap=True)
        kept = self.hold("kept", [_numbers(_UNSIGNED, 1), _numbers(_UNSIGNED, 2)])
        return CommandAnswer((once, kept))


class ReuseConnection(Scenario):
    """An endpoint that says: ask here."""

    locations = "reuse"

    def command(self, scope: Scope, subject: str, command: bytes) -> CommandAnswer:
        """One endpoint."""
        return CommandAnswer((self.hold("here", [_numbers(_SIGNED, 1)]),))


class SessionOptions(Scenario):
    """A session that refuses one name and one value."""

    def option(self, name: str, text: str) -> Literal["", "name", "value"]:
        """Upstream's clients try these."""
        if name == "lol_invalid":
            return "name"
        return "value" if text == "lol_invalid" else ""


class Polling(Scenario):
    """A job that half its producers have finished at the first poll, and all at the second."""

    def command(self, scope: Scope, subject: str, command: bytes) -> CommandAnswer:
        """Asked again, it is done."""
        again = bool(self._edges)
        self.drop()
        held = self.hold("result", [_numbers(_UNSIGNED, 1)], n_producers=1 if again else 2)
        return CommandAnswer((held,))


class AppMetadata(Scenario):
    """The command itself is the metadata of the info and of its endpoint."""

    def command(self, scope: Scope, subject: str, command: bytes) -> CommandAnswer:
        """One endpoint."""
        return CommandAnswer((self.hold("said", [_numbers(_UNSIGNED, 1)]),), command)


SCENARIOS: dict[str, type[Scenario]] = {
    "auth:basic_proto": BasicAuth,
    "middleware": Middleware,
    "ordered": Ordered,
    "expiration_time:do_get": ExpirationTime,
    "expiration_time:list_actions": ExpirationTime,
    "expiration_time:cancel_flight_info": ExpirationTime,
    "expiration_time:renew_flight_endpoint": ExpirationTime,
    "location:reuse_connection": ReuseConnection,
    "session_options": SessionOptions,
    "poll_flight_info": Polling,
    "app_metadata_flight_info_endpoint": AppMetadata,
}
"""By the names that upstream's clients know."""


def _numbers(schema: pa.Schema, *values: int) -> pa.Table:
    return pa.table({"number": list(values)}, schema)
