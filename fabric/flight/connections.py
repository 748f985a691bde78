"""Connections to Flight servers: how they are opened, shortened to Unix sockets, authenticated.

Connections of streams are native, kept and shared by `Connections`; `connect` makes a plain pyarrow
client for the calls that are no streams, and `connect_s` says how long either may take.

`AgentHandshake` is the client's side of the HMAC challenge of Handshake: the client sends its agent
id, the server a nonce, the client the HMAC of both, the server a token of scope agent. The fabric's
secret never travels. The server's side is `fabric/_cython/shuffle/flight/gate.cpp`.

Agents of one host use Unix sockets. A socket only makes the way shorter: the same tokens and
tickets are asked for as over TCP, and nobody is trusted for its user id. It lies in a folder of its
user's alone, under a name that nobody can guess and no other agent has, so a path means the same
socket wherever it can be opened at all (containers share a host's id, not its files). An agent with
TLS has no socket: whoever set that up wants peers that prove themselves by certificate, and a path
proves nothing.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import pyarrow as pa
import pyarrow.flight as fl

from fabric._cython.shuffle.pump.pump import PER_ADDRESS_MAX, Connections
from fabric.control import control_pb2 as pb
from fabric.errors import ConfigError, StorageError
from fabric.security.tokens import MAC_BYTES, Signer
from fabric.telemetry.logs import logger

__all__ = ["PER_ADDRESS_MAX", "Connections", "connect", "connect_s"]

CONNECT_S_MAX = 20.0
ANSWER_BYTES_MAX = 16 << 20
"""Of one message of an answer that is no stream of rows: whoever asks holds all of it."""
TOKEN_TTL_S = 3600.0
NONCE_BYTES = 32
_log = logger("fabric.agent")
PATH_BYTES_MAX = 107
"""What the kernel takes as the path of a socket."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


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


def prove(signer: Signer, nonce: bytes, agent_id: str) -> bytes:
    """The answer to a challenge."""
    return signer.sign(nonce + agent_id.encode(), "handshake")[-MAC_BYTES:]


class AgentHandshake(fl.ClientAuthHandler):  # type: ignore[misc]
    """For `FlightClient.authenticate`; `token` holds the agent token afterwards."""

    def __init__(self, signer: Signer, agent_id: str) -> None:
        super().__init__()
        self._signer, self._agent_id = signer, agent_id
        self.token = ""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Answer the server's challenge."""
        outgoing.write(self._agent_id.encode())
        outgoing.write(prove(self._signer, incoming.read(), self._agent_id))
        self.token = incoming.read().decode()

    def get_token(self) -> bytes:
        """Nothing: the token travels as ``authorization: Bearer``."""
        return b""


def host_id() -> str:
    """Of this host since it was started; empty where there is none, and then no sockets."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def new_socket(folder: Path) -> Path:
    """A path for the socket of the agent that alone uses `folder`.

    It lies below `folder`, or below the temporary folder when that makes a path too long for the
    kernel or not fit for an address. Sockets that an earlier agent left there are removed.

    Raises
    ------
    StorageError
        No folder can be made that is this user's alone.
    """
    whose = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    aside = Path(tempfile.gettempdir()) / f"fabric-{os.geteuid()}-{whose}"
    for private in (folder.absolute() / "run", aside):
        path = private / f"{secrets.token_hex(8)}.sock"
        if len(os.fsencode(path)) <= PATH_BYTES_MAX and quote(os.fsencode(path)) == str(path):
            _empty_private(private)
            return path
    raise StorageError(f"no path below {folder} or {aside.parent} is fit for a Unix socket")


def remove_socket(path: Path) -> None:
    """Remove a socket, and its folder when nothing else is in it."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()


def _empty_private(folder: Path) -> None:
    """Make a folder that is this user's alone, without sockets."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        if ours:
            folder.chmod(0o700)
            for left in folder.glob("*.sock"):
                left.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"can't use the folder {folder}: {error.strerror}") from error
    if not ours:
        raise StorageError(f"{folder} is not a folder of this user")


class Shortens(Protocol):
    """What takes shorter ways to addresses (`FlightTransport`)."""

    def shorten(self, paths: Mapping[str, str], *, only: bool = False) -> Mapping[str, str]:
        """Use the sockets in {address: path}; why some can't be used, by address."""


class Neighbours:
    """The agents of the host `host`, as the coordinator tells them."""

    def __init__(self, transport: Shortens, host: str) -> None:
        self._transport, self._host = transport, host
        self._said: set[str] = set()

    def update(self, message: pb.Locations) -> None:
        """Take over the sockets in a pushed message; one that can't be used is said once."""
        if not self._host:
            return
        paths = {
            message.addresses[agent]: unix.path
            for agent, unix in message.sockets.items()
            if unix.host_id == self._host and agent in message.addresses
        }
        for address, why in self._transport.shorten(paths, only=message.full).items():
            if paths[address] not in self._said:
                self._said.add(paths[address])
                _log.info("a Unix socket can't be used, TCP is", agent=address, why=why)
