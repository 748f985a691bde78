"""The HMAC challenge of Handshake: who knows the fabric secret gets an agent token.

One job: the client's side. The client sends its agent id, the server a nonce, the client the HMAC
of both, the server a token of scope agent. The secret itself never travels. The server's side is
`fabric/_cython/shuffle/flight/gate.cpp`.
"""

from __future__ import annotations

from typing import Any

import pyarrow.flight as fl

from fabric.security.tokens import MAC_BYTES, Signer

TOKEN_TTL_S = 3600.0
NONCE_BYTES = 32


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
