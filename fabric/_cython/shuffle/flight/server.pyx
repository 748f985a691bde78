"""The Flight server of an agent for Python: start, stop, and the questions it asks back.

One job: the door. `face` (fabric/flight/handlers.py) answers what the server asks of Python; each
of those functions takes the GIL, nothing else here does while the server serves.
"""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.utility cimport pair
from libcpp.vector cimport vector

from fabric._cython.shuffle.flight.directory cimport Directory, LocationDirectory
from fabric._cython.shuffle.flight.handlers cimport HandlerSet, Handlers
from fabric._cython.shuffle.flight.streams cimport StreamDoor, StreamPuts
from fabric._cython.shuffle.wire.arrow_cpp cimport CResult, CStatus, PyRef, ensure_pyarrow
from fabric._cython.shuffle.wire.faults cimport raise_fault, told_status

from fabric._cython.shuffle.grpc.abi import check_grpc, installed_grpc


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
    cppclass StateDataset:
        vector[string] path
        string dataset
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
        CStatus (*states)(PyObject*, const vector[string]&, vector[StateDataset]&) noexcept
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


cdef bytes _bytes(const string& data):
    return data.data()[:data.size()]


cdef double _clock(PyObject* face) noexcept with gil:
    try:
        return (<object> face).wall_s()
    except BaseException:
        return 0.0


cdef CStatus _verify(PyObject* face, const string& header, Claims& out) noexcept with gil:
    try:
        scope, subject, expires_s = (<object> face).verify(header.decode("utf-8", "replace"))
        out.scope = <Scope> (<uint32_t> scope)
        out.subject, out.expires_s = subject.encode(), expires_s
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef void _refused(PyObject* face, const string& method, const string& why,
                   const string& peer) noexcept with gil:
    (<object> face).refused(
        method.decode(), why.decode("utf-8", "replace"), peer.decode("utf-8", "replace"))


cdef void _broken(PyObject* face, const string& what) noexcept with gil:
    (<object> face).broken(what.decode("utf-8", "replace"))


cdef void _passed_over(PyObject* face, const string& dataset, uint32_t partition,
                       const string& owner, const string& why) noexcept with gil:
    (<object> face).passed_over(
        dataset.decode(), partition, owner.decode(), why.decode("utf-8", "replace"))


cdef CStatus _locate(PyObject* face, const string& job, const string& dataset) noexcept with gil:
    try:
        (<object> face).locate(job.decode(), dataset.decode())
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef CStatus _challenge(PyObject* face, const string& agent, string& nonce) noexcept with gil:
    try:
        nonce.assign(<string> (<object> face).challenge(_bytes(agent)))
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef CStatus _prove(PyObject* face, const string& agent, const string& nonce, const string& proof,
                    string& token) noexcept with gil:
    try:
        token.assign(<string> (<object> face).prove(_bytes(agent), _bytes(nonce), _bytes(proof)))
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef CStatus _login(PyObject* face, const string& user, const string& password,
                    string& token) noexcept with gil:
    try:
        token.assign(<string> (<object> face).login(
            user.decode("utf-8", "replace"), password.decode("utf-8", "replace")))
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef CStatus _offered(PyObject* face, const Claims& claims,
                      vector[pair[string, string]]& out) noexcept with gil:
    try:
        for name, text in (<object> face).offered(scope_name(claims.scope).decode()):
            out.push_back(pair[string, string](name.encode(), text.encode()))
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef CStatus _act(PyObject* face, const Claims& claims, const string& name, const string& body,
                  string& answer) noexcept with gil:
    try:
        answer.assign(<string> (<object> face).act(
            scope_name(claims.scope).decode(), claims.subject.decode(),
            name.decode("utf-8", "replace"), _bytes(body)))
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef CStatus _cancel(PyObject* face, const Claims& claims, const string& job,
                     uint32_t& state) noexcept with gil:
    cdef uint32_t found
    try:
        found = (<object> face).cancel(
            job.decode(), scope_name(claims.scope).decode(), claims.subject.decode())
        (&state)[0] = found
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef CStatus _command(PyObject* face, const Claims& claims, const string& command,
                      CommandAnswer& out) noexcept with gil:
    cdef vector[string] elements
    try:
        answer = (<object> face).command(
            scope_name(claims.scope).decode(), claims.subject.decode(), _bytes(command))
        for path in answer.paths:
            elements = [element.encode() for element in path]
            out.paths.push_back(elements)
        if answer.app_metadata is not None:
            out.own_words, out.app_metadata = True, answer.app_metadata
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef CStatus _states(PyObject* face, const vector[string]& path,
                     vector[StateDataset]& out) noexcept with gil:
    cdef StateDataset each
    cdef size_t i
    try:
        wanted = tuple([path[i].decode() for i in range(path.size())])
        for found, dataset in (<object> face).states(wanted):
            each.path = [element.encode() for element in found]
            each.dataset = dataset.encode()
            out.push_back(each)
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef CStatus _option(PyObject* face, const string& name, const string& text,
                     Verdict& out) noexcept with gil:
    try:
        wrong = (<object> face).option(name.decode(), text.decode("utf-8", "replace"))
        (&out)[0] = <Verdict> (<uint32_t> ["", "name", "value"].index(wrong))
    except BaseException as error:
        return told_status(error)
    return CStatus()


@cython.final
cdef class NativeServer:
    """Serves from its construction on; `stop` ends it, and so does the end of the object.

    Parameters
    ----------
    face
        Answers the questions; must not refer to this object.
    own_clock
        Whether `face` has a clock of its own; the machine's is asked else.
    own_options
        Whether `face` judges session options that are not the server's own; any is good else.
    limits
        What clients may ask of it, a `fabric.config.Limits`.
    tls
        (certificate, key) in PEM.
    locations
        What endpoints say to clients that do not choose: "all", "reuse" (this connection serves
        them) or "none" (the same, for clients that know no reuse).
    own_actions
        Names of Flight's own actions to offer; all of them when empty.
    echoed
        Headers of a call that come back with its answer, when they have at most 256 bytes.
    streams
        Takes puts into streams, if there may be any.
    """

    cdef shared_ptr[Server] server
    cdef int port_number

    def __cinit__(self, face, HandlerSet handlers not None, LocationDirectory table not None, *,
                  str agent_id, str location, bytes ticket_key, double ticket_s, limits,
                  bint own_clock=False, bint own_options=False, tls=None,
                  str locations="all", own_actions=(), echoed=("x-request-id",),
                  StreamPuts streams=None):
        cdef ServerConfig config
        config.ask = asking(face, own_clock, own_options)
        if not set_places(config.view, locations.encode()):
            raise ValueError(f"locations are 'all', 'reuse' or 'none', not {locations!r}")
        config.actions = [name.encode() for name in own_actions]
        config.echoed = [name.encode() for name in echoed]
        config.table = table.directory
        config.handlers = <shared_ptr[const Handlers]> handlers.handlers
        if streams is not None:
            config.streams = streams.door
        config.agent_id, config.location = agent_id.encode(), location.encode()
        config.ticket_key, config.ticket_s = ticket_key, ticket_s
        config.limits = native_limits(limits)
        if tls is not None:
            config.tls_certificate, config.tls_key = tls
        cdef CResult[shared_ptr[Server]] started
        with nogil:
            started = Server.start(config)
        raise_fault(started.status())
        self.server = started.ValueUnsafe()
        self.port_number = self.server.get().port()

    def __dealloc__(self):
        if self.server.get() != NULL:
            self.end(0.0)

    def listen(self, str path not None):
        """Answer at a Unix socket as well, made at `path`; once, before `stop`.

        Raises
        ------
        StorageError
            The socket can't be made.
        """
        cdef string at = path.encode()
        cdef CStatus status
        with nogil:
            status = self.server.get().listen(at)
        raise_fault(status)

    @property
    def port(self):
        """The port it listens on."""
        return self.port_number

    @property
    def n_open(self):
        """Calls that are open now."""
        return 0 if self.server.get() == NULL else self.server.get().inside().open()

    @property
    def n_changes(self):
        """Grows when a stream of rows begins or ends."""
        return 0 if self.server.get() == NULL else self.server.get().inside().changes()

    @property
    def closed(self):
        """Whether new calls are refused."""
        return self.server.get() == NULL or self.server.get().inside().closed()

    def refuse_calls(self):
        """Refuse new calls from now on; open streams end at their next message."""
        if self.server.get() != NULL:
            self.server.get().inside().close()

    def set_streams_max(self, int64_t most):
        """How many calls may be open at once."""
        self.server.get().inside().set_most(most)

    def stop(self, double grace_s):
        """Refuse new calls, let open ones end; whether all ended. Once only, then True."""
        return True if self.server.get() == NULL else self.end(grace_s)

    cdef bint end(self, double grace_s) noexcept:
        cdef shared_ptr[Server] server
        cdef cbool ended
        server.swap(self.server)
        with nogil:
            ended = stop_server(server, grace_s)
        return ended


cdef Limits native_limits(object given):
    cdef Limits limits
    limits.streams_max = given.streams_max
    limits.peer_streams_max = given.peer_streams_max
    limits.connections_max = given.connections_max
    limits.message_bytes = given.message_bytes
    limits.unpacked_bytes = given.unpacked_bytes
    limits.peer_idle_s = given.peer_idle_s
    limits.handshake_s = given.handshake_s
    return limits


cdef Asking asking(object face, bint own_clock, bint own_options):
    cdef Asking ask
    ask.face = PyRef(<PyObject*> face)
    if own_clock:
        ask.clock = &_clock
    if own_options:
        ask.option = &_option
    ask.verify, ask.refused, ask.broken = &_verify, &_refused, &_broken
    ask.passed_over = &_passed_over
    ask.locate, ask.challenge, ask.prove = &_locate, &_challenge, &_prove
    ask.login, ask.offered, ask.act = &_login, &_offered, &_act
    ask.cancel, ask.command, ask.states = &_cancel, &_command, &_states
    return ask


ensure_pyarrow()
check_grpc(installed_grpc())
