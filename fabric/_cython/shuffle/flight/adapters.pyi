from collections.abc import Callable

from fabric._cython.shuffle.flight.handlers import HandlerSet

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
