from fabric._cython.shuffle.flight.handlers import HandlerSet
from fabric._cython.shuffle.store.store import Store

def serve_store(handlers: HandlerSet, store: Store) -> None: ...
