"""Who may stay connected to a port: the face of `wire/admission.hpp`, for servers in Python.

One job: start and end it, and let a server say what its peers have shown.
"""

cimport cython
from libc.stdint cimport int64_t, uint32_t
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string


cdef extern from "wire/admission.hpp" namespace "fabric" nogil:
    cppclass Capacity:
        Capacity()
        int64_t connections_max
        double handshake_s

    cdef enum class Kind "fabric::Admission::Kind"(uint32_t):
        STRANGER
        CLIENT
        AGENT

    cppclass CAdmission "fabric::Admission":
        CAdmission(const Capacity& capacity)
        void watch(int port)
        void admit(const string& peer, Kind kind)
        int64_t count(Kind kind)
        int64_t ended()

    int64_t c_surge "fabric::surge"(int64_t connections_max)


def surge(int64_t connections_max):
    """How many connections a server must take so that a crowd is noticed before it is full."""
    return c_surge(connections_max)


@cython.final
cdef class Admission:
    """Watches the connections to `port`, on which this process listens, until `stop`.

    A peer that has shown nothing within `handshake_s` is disconnected. Of `connections_max` those
    have a quarter, peers with a token a half, one address half of either.
    """

    cdef unique_ptr[CAdmission] admission

    def __cinit__(self, int port, *, int64_t connections_max, double handshake_s):
        cdef Capacity capacity
        capacity.connections_max, capacity.handshake_s = connections_max, handshake_s
        with nogil:
            self.admission.reset(new CAdmission(capacity))
            self.admission.get().watch(port)

    def __dealloc__(self):
        self.stop()

    def admit(self, str peer not None, *, bint agent=False):
        """`peer`, as gRPC names it, has shown a token, or that of an agent."""
        if self.admission.get() != NULL and peer.startswith("ipv"):
            self.admission.get().admit(peer.encode(), Kind.AGENT if agent else Kind.CLIENT)

    def expect(self, str peer not None):
        """`peer` is a stranger again, whose time begins now: it has to say what it wants."""
        if self.admission.get() != NULL:
            self.admission.get().admit(peer.encode(), Kind.STRANGER)

    @property
    def counts(self):
        """(strangers, clients, agents, ended): connected now, and those that were ended."""
        if self.admission.get() == NULL:
            return 0, 0, 0, 0
        admission = self.admission.get()
        return (admission.count(Kind.STRANGER), admission.count(Kind.CLIENT),
                admission.count(Kind.AGENT), admission.ended())

    cpdef stop(self):
        """End nobody any more."""
        cdef unique_ptr[CAdmission] admission
        admission.swap(self.admission)
        with nogil:
            admission.reset()
