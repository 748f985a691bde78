"""Connections and puts, for other native extensions that call agents."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.map cimport map
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from fabric._cython.shuffle.wire.arrow_cpp cimport CRecordBatch, CResult


cdef extern from * namespace "fabric" nogil:
    """
    namespace fabric {  // who only hands them on needs no more
    class Connections;
    class PutCall;
    }
    """
    cppclass Governor:
        int64_t bytes()
        int64_t requests()

    cppclass CConnection "fabric::Connection":
        pass

    cppclass CConnections "fabric::Connections":
        CResult[shared_ptr[CConnection]] lend(const string& address)
        void broken(const shared_ptr[CConnection]& connection)
        map[string, string] shorten(const map[string, string]& paths, cbool only)
        shared_ptr[Governor] governor(const string& address)
        size_t n_calls()
        void close()

    cppclass Patience:
        Patience()

    ctypedef vector[shared_ptr[CRecordBatch]] Batches

    cppclass CPut "fabric::PutCall":
        void start() except +
        CResult[cbool] write(const shared_ptr[CRecordBatch]& batch, uint32_t partition,
                             Patience& patience, Batches& spent)
        CResult[cbool] seal(Patience& patience, Batches& spent, string& answer)
        void drain(Batches& spent)
        void close()
        uint64_t rows()


cdef class Put:
    cdef shared_ptr[CPut] put
    cpdef void abandon(self) noexcept


cdef class Connections:
    cdef shared_ptr[CConnections] pool
    cdef object __weakref__
