"""The partitions of a native store behind DoGet, without Python."""

from cython.operator cimport dereference
from libcpp.memory cimport shared_ptr

from fabric._cython.shuffle.flight.handlers cimport HandlerSet
from fabric._cython.shuffle.store.store cimport CStore, Store


def serve_store(HandlerSet handlers not None, Store store not None):
    """Read tickets of edges from `store`; others go to the handler that was there before."""
    set_store(dereference(handlers.handlers), <shared_ptr[const CStore]> store.core)
