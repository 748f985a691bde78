from collections.abc import Callable

from fabric._cython.shuffle.flight.handlers import HandlerSet
from fabric._cython.shuffle.pump.pump import Connections

def serve_passing(
    handlers: HandlerSet,
    connections: Connections,
    agent_token: Callable[[], str],
    *,
    ticket_key: bytes,
    idle_s: float,
) -> None: ...
