from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr, unique_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from fabric._cython.shuffle.store.messages cimport MessageStream
from fabric._cython.shuffle.wire.arrow_cpp cimport (
    CRecordBatch, CResult, CSchema, CStatus, PyRef,
)
from fabric._cython.shuffle.wire.headers cimport DatasetPart, DatasetTicket


cdef extern from * namespace "fabric" nogil:
    """
    namespace fabric {  // who only hands them on needs no more
    class DatasetFolder;
    class OwnerWriter;
    }
    """
    cppclass Receipt:
        Receipt()
        uint64_t rows
        uint32_t crc32c_sum

    cppclass OwnerWriter:
        CStatus write(uint32_t partition, const shared_ptr[CRecordBatch]& batch) except +
        CResult[Receipt] seal() except +
        void abandon() except +

    cppclass CWanted "fabric::DatasetFolder::Wanted":
        pass
    CWanted wanted_by(PyRef face, CStatus (*call)(
        PyObject*, const string&, const string&, uint32_t) noexcept)

    cppclass TransactionKey:
        TransactionKey(string name, string transaction)

    cppclass CTransactions "std::set<fabric::TransactionKey>":
        CTransactions()
        void insert(TransactionKey key)

    cppclass CPartitions "std::set<uint32_t>":
        CPartitions()
        void insert(uint32_t partition)

    cppclass CDatasetFolder "fabric::DatasetFolder":
        @staticmethod
        CResult[shared_ptr[CDatasetFolder]] open(string path, string agent, int cpu) except +
        string root()
        void fail_at(size_t step, int error)
        void set_wanted(CWanted wanted)
        CResult[shared_ptr[OwnerWriter]] open_write(
            string name, string transaction, string writer, uint32_t attempt,
            shared_ptr[CSchema] schema) except +
        CResult[cbool] has(const DatasetTicket& ticket) except +
        CResult[unique_ptr[MessageStream]] read(
            const DatasetTicket& ticket, shared_ptr[CSchema] schema, cbool headers) except +
        CResult[shared_ptr[OwnerWriter]] open_copy(
            const DatasetTicket& ticket, shared_ptr[CSchema] schema) except +
        CStatus discard(string name, string transaction) except +
        CStatus keep(string name, const CPartitions& kept,
                     const vector[DatasetPart]& parts) except +
        vector[string] sweep(const CTransactions& live, double now_s, double age_s) except +


cdef class FileWriter:
    cdef shared_ptr[OwnerWriter] writer
    cdef object receipt

cdef class DatasetFolder:
    cdef shared_ptr[CDatasetFolder] folder
    cdef object receipt
