from fabric._cython.shuffle.flight.handlers import HandlerSet
from fabric.flight.adapted import Streams

def adapt(handlers: HandlerSet, face: Streams, *, get: bool = True, fetch: bool = True) -> None: ...
