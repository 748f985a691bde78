"""Any Arrow Flight server as a source, one split an endpoint, and as a target, by `do_put`.

A split's `uri` holds the endpoint's locations, separated by spaces, the best first; the server's
own address stands for "reuse the connection".

A fabric's agent has transactions: every task puts an attempt of its own, and `publish` commits them
all at once. Any other server takes rows as they come: there each task streams one put, and what the
server does with it is its own affair.

`asked`, for both: whoever may submit a plan may name any host and port in it. What they hear of one
that can't be used is the same sentence after the same time, whether nothing listens there, nothing
comes back, or what listens is no Flight server; the log of this process says which.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.flight as fl

from fabric._cython.shuffle.flight.foreign import small_messages
from fabric.cancellation import check_wanted
from fabric.checkpoint.manifest import FINAL
from fabric.errors import AuthError, ConfigError, DataError, FabricError, PeerLostError, PlanError
from fabric.flight.client import REUSE, Client
from fabric.flight.errors import is_told
from fabric.ids import TaskId
from fabric.io import places
from fabric.io.sinks.protocol import Handle, SinkWriter, grouped
from fabric.plan.sources import FlightSource, Split
from fabric.plan.targets import FlightTarget
from fabric.telemetry.logs import logger

ENDPOINTS_MAX = 100_000


def source_schema(source: FlightSource) -> pa.Schema:
    """The schema the server promises."""
    return _info(source).schema


def enumerate_splits(source: FlightSource, n_target: int = 0) -> list[Split]:
    """One split an endpoint, however many are wanted."""
    info = _info(source)
    if len(info.endpoints) > ENDPOINTS_MAX:
        raise DataError(
            f"{source.uri} has {len(info.endpoints)} endpoints for it, at most {ENDPOINTS_MAX} can "
            "be read; ask it for a part"
        )
    n_rows = max(0, info.total_records) // max(1, len(info.endpoints))
    return [
        Split(uri=_locations(endpoint, source.uri), ticket=endpoint.ticket.ticket, n_rows=n_rows)
        for endpoint in info.endpoints
    ]


def read_split(
    source: FlightSource, schema: pa.Schema, split: Split, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one endpoint; `DataError` when they are not of `schema`."""
    locations = split.uri.split()
    _check_hosts([source.uri, *locations])
    with client_of(source) as client:
        for batch in client.read_endpoint(split.ticket, locations):
            if not batch.schema.equals(schema):
                raise DataError(
                    f"{source.uri} sent columns {_columns(batch.schema)}, it promised "
                    f"{_columns(schema)}"
                )
            yield batch if columns is None else batch.select(list(columns))


def _info(source: FlightSource) -> fl.FlightInfo:
    _check_hosts([source.uri])
    with client_of(source, IDLE_S.get()) as client:
        info = client.info(source.path, source.command)
    for endpoint in info.endpoints:  # a server may name others
        _check_hosts(_locations(endpoint, source.uri).split())
    return info


def client_of(place: FlightSource | FlightTarget, idle_s: float = 30.0) -> Client:
    """A client of the server that a plan names."""
    roots = place.tls_roots or None
    return Client(place.uri, place.token, idle_s=idle_s, tls_roots=roots, insecure=place.insecure)


def _check_hosts(addresses: Sequence[str]) -> None:
    for address in addresses:
        if not address.startswith(REUSE):
            places.check_host(address)


def _locations(endpoint: fl.FlightEndpoint, own: str) -> str:
    uris = [location.uri.decode() for location in endpoint.locations]
    return " ".join(own if uri.startswith(REUSE) else uri for uri in uris) or own


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)[:1000]


T = TypeVar("T")

IDLE_S: ContextVar[float] = ContextVar("idle_s", default=30.0)
"""How long a call of `source.py` may take in this thread."""
AGAIN_S = 0.5
_log = logger("fabric.flight")


def asked(uri: str, call: Callable[[], T], within_s: float, asker: str = "coordinator") -> T:
    """What `call` answers, which asks the server at `uri` and is tried again until `within_s`.

    `asker` is what this process is.

    Raises
    ------
    PeerLostError
        Nothing that can be used answered; always after `within_s`.
    """
    end_s = time.monotonic() + within_s
    while True:
        check_wanted()
        token = IDLE_S.set(max(0.1, end_s - time.monotonic()))
        try:
            return call()
        except (ConfigError, PlanError):
            raise  # the address is none, or not for plans: nobody was asked
        except FabricError as error:
            if is_told(error) or _is_ours(error):
                raise
            failure = error
        finally:
            IDLE_S.reset(token)
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            break
        time.sleep(min(AGAIN_S, left_s))
    _log.warning("a plan's Flight server can't be used", uri=uri[:200], error=str(failure))
    raise PeerLostError(
        f"no Flight server at {uri[:200]} answered within {within_s:g} s; check the address, and "
        f"that the {asker}'s machine may reach it (the {asker}'s log says what happened)"
    )


def _is_ours(error: FabricError) -> bool:
    """Whether nobody was asked, or what answered is a Flight server that said too much."""
    return error.__cause__ is None and not isinstance(error, PeerLostError)


BEGIN = "dataset.begin"
WITHIN_S = 10.0
"""For the server of a sink to answer."""


class FlightSink(SinkWriter):
    """One task's put; tasks with the same `key` share a transaction, where the server has any."""

    def __init__(self, target: FlightTarget, schema: pa.Schema, task: TaskId, key: str) -> None:
        self._target = target
        places.check_host(target.uri)
        self._client = client_of(target)
        self._writer = f"task-{task.task}"
        self._attempt = task.attempt
        self._rows = 0
        try:
            self._transaction = self._begin(schema, key)
            path = list(target.path)
            if self._transaction:
                path += [self._transaction, self._writer, str(self._attempt)]
            self._put = self._client.open_put(path, schema)
        except BaseException:
            self._client.close()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        """Send rows, in messages of at most 4 MiB."""
        for message in small_messages(batch):
            self._put.write(message)
        self._rows += batch.num_rows

    def prepare(self, checkpoint: int = FINAL) -> bytes:
        """End the put and wait for the server's acknowledgement."""
        self._put.finish()
        self._client.close()
        facts = {
            "uri": self._target.uri,
            "token": self._target.token,
            "tls_roots": self._target.tls_roots.decode("ascii", "replace"),
            "insecure": self._target.insecure,
            "transaction": self._transaction,
            "dataset": self._target.path[1] if self._transaction else "",
            "writer": self._writer,
            "attempt": self._attempt,
            "rows": self._rows,
        }
        return Handle("flight", facts).encode()

    def abandon(self) -> None:
        """Break the put off."""
        self._put.abandon()
        self._client.close()

    def _reached(self) -> list[str]:
        """The actions that the server offers; one that can't say offers none.

        Where the plan is somebody else's, they hear nothing of a server that can't be used but
        that, see `asking`.
        """
        target = self._target

        def ask() -> list[str]:
            with client_of(target, IDLE_S.get()) as client:
                return _actions(client)

        return asked(target.uri, ask, WITHIN_S, "agent") if places.are_guarded() else ask()

    def _begin(self, schema: pa.Schema, key: str) -> str:
        """Join the transaction of `key`, where the server has such a thing."""
        target = self._target
        offered = self._reached()
        if len(target.path) != 2 or target.path[0] != "dataset" or BEGIN not in offered:
            return ""
        begun = self._client.action(
            BEGIN,
            name=target.path[1],
            schema=base64.b64encode(schema.serialize()).decode(),
            mode="append",
            idempotency_key=key,
        )
        return str(begun["transaction"])


def publish(handles: Sequence[Handle]) -> None:
    """Commit what the tasks put; may be repeated. Servers without transactions have it already."""
    for facts in _by_transaction(handles):
        first = facts[0]
        keep = ("writer", "attempt", "rows")
        parts = [{name: fact[name] for name in keep} for fact in facts]
        with _client_of(first) as client:
            client.action("dataset.commit", transaction=first["transaction"], parts=parts)


def take_back(handles: Sequence[Handle]) -> None:
    """Refused by a fabric, whose rows are seen once; any other server has seen them for good."""
    for facts in _by_transaction(handles):
        first = facts[0]
        raise PlanError(
            f"rows that were committed to dataset {first['dataset']!r} at {first['uri']} can't be "
            "taken back from here; write to the fabric's own dataset (to_dataset) where that counts"
        )
    for uri in sorted({handle.facts["uri"] for handle in handles}):
        _log.warning("rows are sent again to a server that keeps what it got", uri=uri)


def abandon(handles: Sequence[Handle]) -> None:
    """Abort what the tasks put; may be repeated."""
    for facts in _by_transaction(handles):
        first = facts[0]
        with _client_of(first) as client:
            client.action("dataset.abort", transaction=first["transaction"], name=first["dataset"])


def _client_of(facts: Mapping[str, Any]) -> Client:
    roots = str(facts.get("tls_roots", "")).encode() or None
    insecure = bool(facts.get("insecure", False))
    return Client(facts["uri"], facts["token"], tls_roots=roots, insecure=insecure)


def _actions(client: Client) -> list[str]:
    """What the server offers; one that can't say offers nothing."""
    try:
        return client.actions()
    except (AuthError, PeerLostError):
        raise
    except FabricError:
        return []


def _by_transaction(handles: Sequence[Handle]) -> list[list[dict[str, Any]]]:
    ours = (handle for handle in handles if handle.facts["transaction"])
    return grouped(ours, "uri", "transaction")
