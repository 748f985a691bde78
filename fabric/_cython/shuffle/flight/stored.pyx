"""The partitions of a native store behind DoGet, without Python."""

from libcpp.memory cimport shared_ptr

from fabric._cython.shuffle.flight.handlers cimport HandlerSet
from fabric._cython.shuffle.store.store cimport CStore, Store


def serve_store(HandlerSet handlers not None, Store store not None):
    """Read tickets of edges from `store`; others go to the handler that was there before."""
    set_store(handlers.handlers.get()[0], <shared_ptr[const CStore]> store.core)
