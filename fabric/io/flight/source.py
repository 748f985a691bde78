"""Reading any Arrow Flight server: one split an endpoint.

One job: `FlightSource` to schema, splits and rows. A split's `uri` holds the endpoint's locations,
separated by spaces, the best first; the server's own address stands for "reuse the connection".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.flight as fl

from fabric.errors import DataError
from fabric.flight.client import REUSE, Client
from fabric.io import places
from fabric.io.flight.asking import IDLE_S
from fabric.plan.sources import FlightSource, Split

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
    with _client(source) as client:
        for batch in client.read_endpoint(split.ticket, locations):
            if not batch.schema.equals(schema):
                raise DataError(
                    f"{source.uri} sent columns {_columns(batch.schema)}, it promised "
                    f"{_columns(schema)}"
                )
            yield batch if columns is None else batch.select(list(columns))


def _info(source: FlightSource) -> fl.FlightInfo:
    _check_hosts([source.uri])
    with _client(source, IDLE_S.get()) as client:
        info = client.info(source.path, source.command)
    for endpoint in info.endpoints:  # a server may name others
        _check_hosts(_locations(endpoint, source.uri).split())
    return info


def _client(source: FlightSource, idle_s: float = 30.0) -> Client:
    roots = source.tls_roots or None
    return Client(
        source.uri, source.token, idle_s=idle_s, tls_roots=roots, insecure=source.insecure
    )


def _check_hosts(addresses: Sequence[str]) -> None:
    for address in addresses:
        if not address.startswith(REUSE):
            places.check_host(address)


def _locations(endpoint: fl.FlightEndpoint, own: str) -> str:
    uris = [location.uri.decode() for location in endpoint.locations]
    return " ".join(own if uri.startswith(REUSE) else uri for uri in uris) or own


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)[:1000]
