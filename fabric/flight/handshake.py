"""The HMAC challenge of Handshake: who knows the fabric secret gets an agent token.

One job: both sides. The client sends its agent id, the server a nonce, the client the HMAC of both,
the server a token of scope agent. The secret itself never travels.
"""

from __future__ import annotations

import secrets
from typing import Any

import pyarrow.flight as fl

from fabric.clock import Clock
from fabric.errors import AuthError, ConfigError, FabricError
from fabric.flight.errors import to_flight
from fabric.ids import check_name
from fabric.security.tokens import MAC_BYTES, Signer

TOKEN_TTL_S = 3600.0
_NONCE_BYTES = 32


def prove(signer: Signer, nonce: bytes, agent_id: str) -> bytes:
    """The answer to a challenge."""
    return signer.sign(nonce + agent_id.encode(), "handshake")[-MAC_BYTES:]


class ServerHandshake(fl.ServerAuthHandler):  # type: ignore[misc]
    """Answers Handshake; other calls are checked by `middleware.Gate` alone."""

    def __init__(self, signer: Signer, clock: Clock) -> None:
        super().__init__()
        self._signer, self._clock = signer, clock

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Run the challenge with one client."""
        try:
            agent_id = _read(incoming).decode("utf-8", "replace")
            try:
                check_name(agent_id, "agent id")
            except ConfigError as error:
                raise AuthError(error.message) from error
            nonce = secrets.token_bytes(_NONCE_BYTES)
            outgoing.write(nonce)
            proof = _read(incoming)
            self._signer.check(nonce + agent_id.encode() + proof, "handshake")
            token = self._signer.token("agent", agent_id, TOKEN_TTL_S, self._clock.wall_s())
            outgoing.write(token.encode())
        except FabricError as error:
            raise to_flight(error) from None

    def is_valid(self, token: bytes) -> bytes:
        """Flight's own token header is not used here."""
        return b""


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


def _read(incoming: Any) -> bytes:
    data = bytes(incoming.read())
    if len(data) > 256:
        raise AuthError("the handshake is not one of this fabric")
    return data
