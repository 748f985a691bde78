"""The Flight server of an agent, see `server.hpp`."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.utility cimport pair
from libcpp.vector cimport vector

from fabric._cython.shuffle.flight.directory cimport Directory
from fabric._cython.shuffle.flight.handlers cimport Handlers
from fabric._cython.shuffle.flight.streams cimport StreamDoor
from fabric._cython.shuffle.wire.arrow_cpp cimport CResult, CStatus, PyRef


cdef extern from "flight/server.hpp" namespace "fabric" nogil:
    cppclass Scope:
        pass
    const char* scope_name(Scope scope)
    cppclass Claims:
        Scope scope
        string subject, key
        double expires_s
    cppclass CommandAnswer:
        vector[vector[string]] paths
        cbool own_words
        string app_metadata
    cppclass Verdict:
        pass
    cppclass Asking:
        PyRef face
        double (*clock)(PyObject*) noexcept
        CStatus (*verify)(PyObject*, const string&, Claims&) noexcept
        void (*refused)(PyObject*, const string&, const string&, const string&) noexcept
        void (*broken)(PyObject*, const string&) noexcept
        void (*passed_over)(PyObject*, const string&, uint32_t, const string&,
                            const string&) noexcept
        CStatus (*locate)(PyObject*, const string&, const string&) noexcept
        CStatus (*challenge)(PyObject*, const string&, string&) noexcept
        CStatus (*prove)(PyObject*, const string&, const string&, const string&, string&) noexcept
        CStatus (*login)(PyObject*, const string&, const string&, string&) noexcept
        CStatus (*offered)(PyObject*, const Claims&, vector[pair[string, string]]&) noexcept
        CStatus (*act)(PyObject*, const Claims&, const string&, const string&, string&) noexcept
        CStatus (*cancel)(PyObject*, const Claims&, const string&, uint32_t&) noexcept
        CStatus (*command)(PyObject*, const Claims&, const string&, CommandAnswer&) noexcept
        CStatus (*option)(PyObject*, const string&, const string&, Verdict&) noexcept
    cppclass View:
        pass
    cbool set_places(View& view, string word)
    cppclass Inside:
        void close()
        cbool closed()
        int64_t open()
        int64_t changes()
        void set_most(int64_t most)
    cppclass Limits:
        int64_t streams_max, peer_streams_max, connections_max, message_bytes, unpacked_bytes
        double peer_idle_s, handshake_s
    cppclass ServerConfig:
        Asking ask
        shared_ptr[Directory] table
        shared_ptr[const Handlers] handlers
        shared_ptr[StreamDoor] streams
        string agent_id, location, ticket_key
        double ticket_s
        Limits limits
        string tls_certificate, tls_key
        View view
        vector[string] actions, echoed
    cppclass Server:
        @staticmethod
        CResult[shared_ptr[Server]] start(const ServerConfig& config)
        CStatus listen(const string& path)
        Inside& inside()
        int port()
    cbool stop_server(shared_ptr[Server] server, double grace_s)


cdef class NativeServer:
    cdef shared_ptr[Server] server
    cdef int port_number
    cdef bint end(self, double grace_s) noexcept
