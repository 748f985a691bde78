"""The location table of an agent, in C++; messages go in and come out as bytes of protobuf.

One job: the door for Python, which `fabric/flight/locations.py` is the typed face of.
"""

cimport cython
from libc.stdint cimport uint32_t
from libcpp.map cimport map as cmap
from libcpp.memory cimport make_shared
from libcpp.string cimport string
from libcpp.vector cimport vector

from fabric._cython.shuffle.wire.arrow_cpp cimport CResult
from fabric._cython.shuffle.wire.faults cimport raise_fault


cdef extern from "flight/directory.hpp" namespace "fabric" nogil:
    CResult[Locations] decode_locations(const string& data)


@cython.final
cdef class LocationDirectory:
    """`Directory` of `directory.hpp`; thread-safe."""

    def __cinit__(self):
        self.directory = make_shared[Directory]()

    @property
    def version(self):
        """Of the newest message applied; 0 before the first."""
        return self.directory.get().version()

    def apply(self, bytes message not None):
        """Take over a pushed `Locations`; (applied, dropped jobs, dropped datasets)."""
        cdef CResult[Locations] decoded = decode_locations(message)
        raise_fault(decoded.status())
        cdef Changes changes = self.directory.get().apply(decoded.ValueUnsafe())
        cdef DatasetPtr gone
        return (
            changes.applied,
            [job.decode() for job in changes.dropped_jobs],
            [<bytes> gone.get().wire for gone in changes.dropped_datasets],
        )

    def merge(self, bytes message not None):
        """Add the answer to a question."""
        cdef CResult[Locations] decoded = decode_locations(message)
        raise_fault(decoded.status())
        self.directory.get().merge(decoded.ValueUnsafe())

    def forget_dataset(self, str name not None):
        """Take a dataset out."""
        self.directory.get().forget_dataset(name.encode())

    def edge(self, str job not None, str node_path not None):
        """The exchange at `node_path` of `job`, or None."""
        return _edge(self.directory.get().edge(job.encode(), node_path.encode()))

    def edge_numbered(self, str job not None, uint32_t edge):
        """The exchange of `job` with the number `edge`, or None."""
        return _edge(self.directory.get().edge_numbered(job.encode(), edge))

    def edges(self, job=None):
        """All exchanges (of one job), by job and node path."""
        cdef string of_job
        cdef vector[EdgePtr] found
        if job is None:
            found = self.directory.get().edges(NULL)
        else:
            of_job = job.encode()
            found = self.directory.get().edges(&of_job)
        cdef EdgePtr edge
        return [_edge(edge) for edge in found]

    def dataset(self, str name not None):
        """The newest version of a dataset, or None."""
        return _dataset(self.directory.get().dataset(name.encode()))

    def datasets(self):
        """All datasets by name."""
        cdef vector[DatasetPtr] found = self.directory.get().datasets()
        cdef DatasetPtr dataset
        return [_dataset(dataset) for dataset in found]

    def address(self, str agent not None):
        """Where an agent listens, empty when it is not connected."""
        return self.directory.get().address(agent.encode()).decode()

    def addresses(self):
        """Flight address by agent id."""
        cdef cmap[string, string] found = self.directory.get().addresses()
        return {entry.first.decode(): entry.second.decode() for entry in found}


cdef object _edge(EdgePtr found):
    return None if found.get() == NULL else <bytes> found.get().wire


cdef object _dataset(DatasetPtr found):
    return None if found.get() == NULL else <bytes> found.get().wire
