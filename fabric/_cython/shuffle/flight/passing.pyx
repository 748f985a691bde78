"""Passing on rows of other agents to foreign clients, without Python."""

from cython.operator cimport dereference

from fabric._cython.kernels.cpu cimport current_cpu
from fabric._cython.shuffle.flight.handlers cimport HandlerSet
from fabric._cython.shuffle.pump.pump cimport Connections
from fabric._cython.shuffle.wire.faults cimport told_status


def serve_passing(HandlerSet handlers not None, Connections connections not None, agent_token, *,
                  bytes ticket_key, double idle_s):
    """Fetch from other agents over `connections`; `agent_token()` is asked now and then."""
    cdef Passing passing
    passing.pool, passing.ticket_key = connections.pool, ticket_key
    passing.idle_s, passing.cpu = idle_s, current_cpu()
    passing.transport, passing.token = PyRef(<PyObject*> agent_token), &_token
    set_passing(dereference(handlers.handlers), passing)


cdef CStatus _token(PyObject* agent_token, string& out) noexcept with gil:
    try:
        out.assign(<string> (<str> (<object> agent_token)()).encode())
    except BaseException as error:
        return told_status(error)
    return CStatus()
