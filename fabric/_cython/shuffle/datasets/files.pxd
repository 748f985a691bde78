from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr, unique_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from fabric._cython.shuffle.wire.arrow_cpp cimport CRecordBatch, CResult, CSchema, CStatus


cdef extern from "store/message.hpp" namespace "fabric" nogil:
    cppclass Message:
        Message()
        string header
        shared_ptr[CRecordBatch] batch

    cppclass MessageStream:
        shared_ptr[CSchema] schema()
        CResult[cbool] next(Message& out) except +

cdef extern from "wire/ticket.hpp" namespace "fabric" nogil:
    cppclass DatasetPart:
        DatasetPart()
        string transaction, writer
        uint32_t attempt

    cppclass DatasetTicket:
        DatasetTicket()
        string name
        uint64_t version
        uint32_t partition
        vector[DatasetPart] parts

cdef extern from "datasets/owner.hpp" namespace "fabric" nogil:
    cppclass Receipt:
        Receipt()
        uint64_t rows
        uint32_t crc32c_sum

    cppclass OwnerWriter:
        CStatus write(uint32_t partition, const shared_ptr[CRecordBatch]& batch) except +
        CResult[Receipt] seal() except +
        void abandon() except +

cdef extern from "datasets/folder.hpp" namespace "fabric" nogil:
    enum class DiskStep(size_t):
        MKDIR
        WRITE
        SYNC
        RENAME

    cppclass Disk:
        void fail(DiskStep step, int error)

    cppclass TransactionKey:
        TransactionKey(string name, string transaction)

    cppclass CTransactions "std::set<fabric::TransactionKey>":
        CTransactions()
        void insert(TransactionKey key)

    cppclass CPartitions "fabric::Partitions":
        CPartitions()
        void insert(uint32_t partition)

    cppclass CFilePath "std::filesystem::path":
        string string()

    cppclass CPartWriter "fabric::PartWriter"(OwnerWriter):
        pass

    cppclass CDatasetFolder "fabric::DatasetFolder":
        @staticmethod
        CResult[shared_ptr[CDatasetFolder]] open(string path, string agent, int cpu) except +
        CFilePath root()
        Disk& disk()
        CResult[shared_ptr[CPartWriter]] open_write(
            string name, string transaction, string writer, uint32_t attempt,
            shared_ptr[CSchema] schema) except +
        CResult[cbool] has(const DatasetTicket& ticket) except +
        CResult[unique_ptr[MessageStream]] read(
            const DatasetTicket& ticket, shared_ptr[CSchema] schema, cbool headers) except +
        CResult[shared_ptr[CPartWriter]] open_copy(
            const DatasetTicket& ticket, shared_ptr[CSchema] schema) except +
        CStatus discard(string name, string transaction) except +
        CStatus keep(string name, const CPartitions& kept,
                     const vector[DatasetPart]& parts) except +
        vector[string] sweep(const CTransactions& live, double now_s, double age_s) except +


cdef class Rows:
    cdef unique_ptr[MessageStream] stream

cdef class FileWriter:
    cdef shared_ptr[CPartWriter] writer
    cdef object receipt

cdef class DatasetFolder:
    cdef shared_ptr[CDatasetFolder] folder
    cdef object receipt
