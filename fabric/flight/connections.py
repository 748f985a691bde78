"""Connections to other Flight servers, kept open and shared.

One job: lend a `FlightClient` per address. Concurrent streams to one server get connections of
their own, up to `PER_ADDRESS_MAX` (four are 1.5 times as fast as one); a broken one is thrown away.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.flight as fl

from fabric.errors import ConfigError, PeerLostError

PER_ADDRESS_MAX = 4


@dataclass(slots=True)
class _Connection:
    client: fl.FlightClient
    users: int = 0
    broken: bool = False


class Connections:
    """Clients by address; thread-safe.

    For ``grpc+tls`` addresses `tls_roots` is the PEM of the CA, and `tls_identity` the PEM of our
    own (certificate, key) when the server asks for one.
    """

    def __init__(
        self, tls_roots: bytes | None = None, tls_identity: tuple[bytes, bytes] | None = None
    ) -> None:
        self._tls_roots, self._tls_identity = tls_roots, tls_identity
        self._lock = threading.Lock()
        self._open: dict[str, list[_Connection]] = {}
        self._closed = False

    @contextmanager
    def lend(self, address: str) -> Iterator[fl.FlightClient]:
        """The least used client to `address`; after a `PeerLostError` it is not lent again."""
        connection = self._take(address)
        try:
            yield connection.client
        except PeerLostError:
            connection.broken = True
            raise
        finally:
            self._give_back(address, connection)

    def close(self) -> None:
        """Close what nobody uses now, and the rest when it is given back."""
        with self._lock:
            self._closed = True
            idle = [c for cs in self._open.values() for c in cs if not c.users]
            self._open.clear()
        for connection in idle:
            connection.client.close()

    def _take(self, address: str) -> _Connection:
        with self._lock:
            if self._closed:
                raise PeerLostError(f"the connection to {address} was closed: shutting down")
            here = self._open.setdefault(address, [])
            usable = [c for c in here if not c.broken]
            best = min(usable, key=lambda c: c.users, default=None)
            if best is None or (best.users and len(usable) < PER_ADDRESS_MAX):
                best = _Connection(connect(address, self._tls_roots, self._tls_identity))
                here.append(best)
            best.users += 1
            return best

    def _give_back(self, address: str, connection: _Connection) -> None:
        with self._lock:
            connection.users -= 1
            gone = connection.users == 0 and (connection.broken or self._closed)
            if gone and connection in self._open.get(address, []):
                self._open[address].remove(connection)
        if gone:
            connection.client.close()


def connect(
    address: str,
    tls_roots: bytes | None = None,
    tls_identity: tuple[bytes, bytes] | None = None,
) -> fl.FlightClient:
    """A client with a TCP connection of its own; nothing is sent yet."""
    encrypted = address.startswith("grpc+tls:")
    certificate, key = tls_identity if encrypted and tls_identity else (None, None)
    try:
        return fl.FlightClient(
            address,
            tls_root_certs=tls_roots if encrypted else None,
            cert_chain=certificate,
            private_key=key,
            generic_options=[
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 1000),
            ],
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError, ValueError) as error:
        raise ConfigError(
            f"{address[:200]!r} is no Flight address; use grpc+tcp://host:port or grpc+tls://…"
        ) from error
