"""What client and server must agree on about gRPC itself.

One job: channels, options, limits, and errors as gRPC statuses. The detail rides in the trailer
`ERROR_KEY`; the status code is for people and proxies. The one trap: by default a server cancels
calls once about a thousand are waiting (`max_pending_requests`), so servers raise that limit and
clients bound their own concurrency.
"""

from __future__ import annotations

import threading
from typing import Any

import grpc
from google.protobuf.message import Message

from fabric.config import TLS
from fabric.control import control_pb2 as pb
from fabric.control.api import SERVICE, Reply
from fabric.control.errors import from_detail, to_detail
from fabric.errors import (
    AuthError,
    CancelledError,
    ConfigError,
    ExhaustedError,
    FabricError,
    InternalError,
    NotFoundError,
    NotLeaderError,
    PeerLostError,
    StorageAwayError,
    StorageError,
    UserError,
)
from fabric.security.tls import TlsError, check_clear, explain

ERROR_KEY = "fabric-error-bin"
LEADER_KEY = "fabric-leader-bin"
"""Where to go instead, beside the error of a coordinator that does not lead."""
MESSAGE_BYTES_MAX = 64 << 20
CALLS_MAX = 64
"""Calls one client has under way at a time."""
CLOSE_S = 5.0
"""How long the closing of a channel is waited for."""
_TICK_S = 0.1

_CODES: tuple[tuple[type[FabricError], grpc.StatusCode], ...] = (
    (AuthError, grpc.StatusCode.UNAUTHENTICATED),
    (NotFoundError, grpc.StatusCode.NOT_FOUND),
    (CancelledError, grpc.StatusCode.FAILED_PRECONDITION),
    (UserError, grpc.StatusCode.INVALID_ARGUMENT),
    (PeerLostError, grpc.StatusCode.UNAVAILABLE),
    (ExhaustedError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (StorageAwayError, grpc.StatusCode.UNAVAILABLE),
    (StorageError, grpc.StatusCode.FAILED_PRECONDITION),
)

Options = list[tuple[str, int]]


def open_channel(
    address: str, tls_roots: bytes | None = None, *, insecure: bool = False
) -> grpc.Channel:
    """A channel to the coordinator at ``host:port`` or, with TLS, at ``grpc+tls://host:port``.

    `tls_roots` are the certificates (PEM) that may have signed the coordinator's, instead of those
    that gRPC trusts by itself; a plain address with them is refused: tokens would go in the clear.
    So is any plain address beyond this machine, unless `insecure`.
    """
    if address.startswith(TLS):
        trusted = grpc.ssl_channel_credentials(root_certificates=tls_roots)
        return grpc.secure_channel(address.removeprefix(TLS), trusted, options=client_options())
    if tls_roots is not None:
        raise ConfigError(
            f"roots for TLS were given, but {address} is an address without; write {TLS}{address}"
        )
    check_clear(address, insecure)
    return grpc.insecure_channel(address, options=client_options())


def unary(
    channel: grpc.Channel, verb: str, reply: type[Reply]
) -> grpc.UnaryUnaryMultiCallable[Message, Reply]:
    """The call of a verb with one reply."""
    return channel.unary_unary(_path(verb), to_bytes, reply.FromString)


def watch(channel: grpc.Channel) -> grpc.UnaryStreamMultiCallable[pb.JobRequest, pb.JobStatus]:
    """The call that gives one status of a job after the other."""
    return channel.unary_stream(_path("Watch"), to_bytes, pb.JobStatus.FromString)


def attach(
    channel: grpc.Channel,
) -> grpc.StreamStreamMultiCallable[pb.AgentMessage, pb.CoordinatorMessage]:
    """The call that is an agent's link."""
    return channel.stream_stream(_path("Attach"), to_bytes, pb.CoordinatorMessage.FromString)


def to_bytes(message: Message) -> bytes:
    """A message as it travels."""
    return message.SerializeToString()


def _path(rpc: str) -> str:
    return f"/{SERVICE.full_name}/{rpc}"


def client_options() -> Options:
    """Options of every channel to a coordinator."""
    return [
        ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
        ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ("grpc.max_metadata_size", 64 << 10),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        ("grpc.enable_http_proxy", 0),
    ]


def server_options(message_bytes_max: int, connections_max: int, handshake_s: float) -> Options:
    """Options of a coordinator's server."""
    return [
        ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
        ("grpc.max_receive_message_length", message_bytes_max),
        ("grpc.server.max_pending_requests", 100_000),
        ("grpc.server.max_pending_requests_hard_limit", 200_000),
        ("grpc.max_concurrent_streams", 4_096),
        ("grpc.max_allowed_incoming_connections", connections_max),
        ("grpc.server_handshake_timeout_ms", int(handshake_s * 1000)),
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 1_000),
    ]


def status_of(error: BaseException) -> tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]:
    """Status code, short text and trailing metadata that tell `error`."""
    detail = to_detail(error)
    found = (code for kind, code in _CODES if isinstance(error, kind))
    text = detail.message.encode("ascii", "replace").decode()[:200]
    code = next(found, grpc.StatusCode.INTERNAL)
    trailing = [(ERROR_KEY, detail.SerializeToString())]
    if isinstance(error, NotLeaderError):
        trailing.append((LEADER_KEY, error.leader.encode()))
    return code, text, tuple(trailing)


def from_rpc(error: grpc.RpcError, address: str) -> FabricError:
    """The error a call to the coordinator at `address` failed with."""
    trailing = dict(_trailing(error))
    if ERROR_KEY in trailing:
        told = from_detail(pb.ErrorDetail.FromString(trailing[ERROR_KEY]))
        if isinstance(told, NotLeaderError):
            told.leader = trailing.get(LEADER_KEY, b"").decode(errors="replace")
        return told
    code = error.code() if isinstance(error, grpc.Call) else None
    match code:
        case grpc.StatusCode.UNAUTHENTICATED:
            return AuthError(f"the coordinator at {address} refuses the token")
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return ConfigError(
                f"a message to or from the coordinator at {address} is larger than "
                f"{MESSAGE_BYTES_MAX >> 20} MiB; read large constants from a file or dataset"
            )
        case grpc.StatusCode.UNIMPLEMENTED:
            return ConfigError(
                f"the coordinator at {address} does not know this call; is it another version?"
            )
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return PeerLostError(f"the coordinator at {address} did not answer in time")
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED | grpc.StatusCode.UNKNOWN:
            return lost(address)
        case _:
            return InternalError(f"the call to the coordinator at {address} failed with {code}")


def broke_off(error: grpc.RpcError) -> bool:
    """Whether the call ended without an answer because nobody is there (any more)."""
    lost = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN)
    told = any(key == ERROR_KEY for key, _ in _trailing(error))
    return isinstance(error, grpc.Call) and error.code() in lost and not told


def unreachable(address: str, tls_roots: bytes | None = None) -> PeerLostError:
    """Nobody answers at `address`; looks whether that has to do with TLS.

    >>> str(unreachable("127.0.0.1:1"))
    'no coordinator answers at 127.0.0.1:1; is it running? `fabric up` starts one'
    """
    if why := explain(address, tls_roots):
        return TlsError(why)
    return lost(address)


def lost(address: str) -> PeerLostError:
    """A call broke off."""
    return PeerLostError(
        f"no coordinator answers at {address}; is it running? `fabric up` starts one"
    )


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    """Call metadata that shows `token`; `AuthError` when it can't be one."""
    if not token or not token.isascii() or not token.isprintable():
        raise AuthError("the token is missing or no token; use the text of the fabric's token file")
    return (("authorization", f"Bearer {token}"),)


def connected(
    address: str,
    tls_roots: bytes | None,
    *,
    within_s: float,
    hurried: bool,
    insecure: bool = False,
) -> grpc.Channel:
    """A channel that is up, see `open_channel`; `PeerLostError` when it is not `within_s`.

    It says whether that is TLS's, but for whoever is `hurried` and has other addresses to try.
    """
    channel = open_channel(address, tls_roots, insecure=insecure)
    try:
        _wait(grpc.channel_ready_future(channel), within_s)
    except grpc.FutureTimeoutError:
        close_channel(channel)
        raise (lost(address) if hurried else unreachable(address, tls_roots)) from None
    except BaseException:  # Ctrl-C, too
        close_channel(channel)
        raise
    return channel


def _wait(ready: grpc.Future[Any], within_s: float) -> None:
    """Counts the time in short waits: a process that was stopped meanwhile did not wait."""
    left_s = within_s
    while True:
        tick_s = min(left_s, _TICK_S)
        try:
            ready.result(timeout=tick_s)
            return
        except grpc.FutureTimeoutError:
            if (left_s := left_s - tick_s) <= 0:
                raise


def close_channel(channel: grpc.Channel) -> None:
    """Close a channel, in a thread of its own, so that Ctrl-C interrupts only the wait for it.

    A `KeyboardInterrupt` within gRPC's own closing leaves the channel half closed for good, and who
    lets go of it last, `__del__`, then waits without an end.
    """
    closing = threading.Thread(target=channel.close, name="close channel", daemon=True)
    closing.start()
    for _ in range(int(CLOSE_S / 0.1)):  # in steps: what comes just before a wait does not wake it
        closing.join(0.1)
        if not closing.is_alive():
            return


def _trailing(error: grpc.RpcError) -> list[tuple[str, bytes]]:
    metadata: Any = error.trailing_metadata() if isinstance(error, grpc.Call) else None
    return [(key, value) for key, value in metadata or () if isinstance(value, bytes)]
