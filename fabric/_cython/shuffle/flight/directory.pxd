"""The location table of an agent, see `directory.hpp`: shared by Python's face and the server."""

from libc.stdint cimport uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.map cimport map as cmap
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector


cdef extern from * namespace "fabric" nogil:
    """
    namespace fabric {  // who only hands them on needs no more
    class Directory;
    }
    """
    cppclass EdgeLocation:
        string wire
    cppclass DatasetLocation:
        string wire
    ctypedef shared_ptr[const EdgeLocation] EdgePtr
    ctypedef shared_ptr[const DatasetLocation] DatasetPtr
    cppclass Locations:
        Locations()
    cppclass Changes:
        cbool applied
        vector[string] dropped_jobs
        vector[DatasetPtr] dropped_datasets
    cppclass Directory:
        Directory()
        uint64_t version()
        Changes apply(const Locations& message)
        void merge(const Locations& message)
        void forget_dataset(const string& name)
        EdgePtr edge(const string& job, const string& node_path)
        EdgePtr edge_numbered(const string& job, uint32_t edge)
        vector[EdgePtr] edges(const string* job)
        DatasetPtr dataset(const string& name)
        vector[DatasetPtr] datasets()
        string address(const string& agent)
        cmap[string, string] addresses()


cdef class LocationDirectory:
    cdef shared_ptr[Directory] directory
