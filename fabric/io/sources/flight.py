"""Any Arrow Flight server as a source, one split an endpoint.

A split's `uri` holds the endpoint's locations, separated by spaces, the best first; the server's
own address stands for "reuse the connection".

`asked`, for sinks, too: whoever may submit a plan may name any host and port in it. What they hear
of one that can't be used is the same sentence after the same time, whether nothing listens there,
nothing comes back, or what listens is no Flight server; the log of this process says which.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import TypeVar

import pyarrow as pa
import pyarrow.flight as fl

from fabric.cancellation import check_wanted
from fabric.errors import ConfigError, DataError, FabricError, PeerLostError, PlanError
from fabric.flight.client import REUSE, Client
from fabric.flight.errors import is_told
from fabric.io import places
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
"""How long a call to such a server may take in this thread."""
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
