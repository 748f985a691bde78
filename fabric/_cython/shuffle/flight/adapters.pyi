from fabric._cython.shuffle.flight.handlers import HandlerSet
from fabric.flight.adapted import Adapted

def adapt(handlers: HandlerSet, face: Adapted, *, get: bool = True, fetch: bool = True) -> None: ...
