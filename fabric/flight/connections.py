"""Connections to Flight servers: how they are opened and authenticated.

Connections of streams are native, kept and shared by `Connections`; `connect` makes a plain pyarrow
client for the calls that are no streams, and `connect_s` says how long either may take.

The handshake of agents is an HMAC challenge: the client sends its agent id, the server a nonce, the
client the HMAC of both, the server a token of scope agent. The fabric's secret never travels. The
server's side is `fabric/_cython/shuffle/flight/gate.cpp`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.flight as fl

from fabric._cython.shuffle.pump.pump import PER_ADDRESS_MAX, Connections
from fabric.errors import ConfigError

__all__ = ["PER_ADDRESS_MAX", "Connections", "connect", "connect_s"]

CONNECT_S_MAX = 20.0
ANSWER_BYTES_MAX = 16 << 20
"""Of one message of an answer that is no stream of rows: whoever asks holds all of it."""
TOKEN_TTL_S = 3600.0
NONCE_BYTES = 32


def connect_s(idle_s: float) -> float:
    """How long one attempt to connect may take when a message may take `idle_s`.

    >>> connect_s(30.0), connect_s(1.0)
    (20.0, 4.0)
    """
    return min(CONNECT_S_MAX, max(2.0, 4 * idle_s))  # longer: `idle_s` is what ends a wait


def connect(
    address: str,
    tls_roots: bytes | None = None,
    tls_identity: tuple[bytes, bytes] | None = None,
) -> fl.FlightClient:
    """A pyarrow client with a TCP connection of its own; nothing is sent yet."""
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
                ("grpc.max_receive_message_length", ANSWER_BYTES_MAX),
            ],
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError, ValueError) as error:
        raise ConfigError(
            f"{address[:200]!r} is not a valid Flight address; use grpc+tcp://host:port or "
            "grpc+tls://…"
        ) from error
