from collections.abc import Callable
from typing import final

from fabric._cython.shuffle.pump.pump import Connections
from fabric._cython.shuffle.store.store import Store

@final
class HandlerSet: ...

def serve_store(handlers: HandlerSet, store: Store) -> None: ...
def serve_passing(
    handlers: HandlerSet,
    connections: Connections,
    agent_token: Callable[[], str],
    *,
    ticket_key: bytes,
    idle_s: float,
) -> None: ...
def adapt(
    handlers: HandlerSet,
    streams: object,
    *,
    partition_request: Callable[..., object],
    dataset_request: Callable[..., object],
    part: Callable[..., object],
    get: bool = True,
    fetch: bool = True,
) -> None: ...
