"""Rows in binary formats, read and written by programs: Avro and Protobuf.

One job: the Python interface of `avro.hpp` and `protobuf.hpp`: pass on the programs that
`fabric.io.codecs` compiles, and request one when a row has a schema id or message that is new.
About 15 ns per field of Avro, GIL released.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from fabric._cython.codecs.codec cimport CDecoder, CEncoder  # no-cython-lint: they are base classes
from fabric._cython.codecs.codec cimport Decoder, Encoder, raise_fault
from fabric._cython.kernels.arrow_c cimport ArrowSchema


cdef extern from *:
    """
    #include "codecs/framed.hpp"

    typedef int (*fabric_ask)(void* decoder, const std::string& header, std::string* reason);

    // A lookup that asks a Python object: `ask` takes the GIL, and returns -1 with an error set.
    static fabric::codecs::Lookup fabric_lookup_of(void* decoder, fabric_ask ask) {
      return [=](std::string_view header, std::string& reason) {
        const int found = ask(decoder, std::string(header), &reason);
        if (found < 0) throw fabric::codecs::PythonError();
        return found > 0;
      };
    }
    """
    cppclass Lookup "fabric::codecs::Lookup":
        Lookup() nogil
    ctypedef int (*Ask "fabric_ask")(
        void* decoder, const string& header, string* reason) except -1 nogil
    Lookup lookup_of "fabric_lookup_of"(void* decoder, Ask ask)


cdef extern from "codecs/avro.hpp" namespace "fabric::codecs" nogil:
    cdef enum AvroOp "fabric::codecs::AvroOp":
        pass

    cppclass AvroNode:
        AvroNode()
        AvroOp op
        int32_t column_id
        int64_t a
        int64_t b
        vector[int32_t] children

    cppclass AvroProgram:
        vector[AvroNode] nodes
        vector[string] texts
        int32_t root

    cppclass CAvroDecoder "fabric::codecs::AvroDecoder"(CDecoder):
        CAvroDecoder(const ArrowSchema& schema, Lookup lookup) except +raise_fault
        void put(string header, AvroProgram program) except +raise_fault

    cppclass CAvroEncoder "fabric::codecs::AvroEncoder"(CEncoder):
        CAvroEncoder(const ArrowSchema& schema, AvroProgram program,
                     string header) except +raise_fault


cdef extern from "codecs/protobuf.hpp" namespace "fabric::codecs" nogil:
    cdef enum PbType "fabric::codecs::PbType":
        pass

    cdef enum PbShape "fabric::codecs::PbShape":
        pass

    cppclass PbEnum:
        PbEnum()
        cbool is_closed
        unordered_map[int32_t, string] names
        unordered_map[string, int32_t] numbers

    cppclass PbField:
        PbField()
        uint32_t number
        PbType type
        PbShape shape
        cbool is_repeated
        cbool has_presence
        cbool is_required
        cbool is_packed
        int32_t column_id
        int32_t message_id
        int32_t enum_id
        int32_t oneof_id

    cppclass PbMessage:
        PbMessage()
        vector[PbField] fields
        vector[int32_t] absent

    cppclass PbProgram:
        PbProgram()
        vector[PbMessage] messages
        vector[PbEnum] enums

    cppclass CProtobufDecoder "fabric::codecs::ProtobufDecoder"(CDecoder):
        CProtobufDecoder(const ArrowSchema& schema, Lookup lookup) except +raise_fault
        void put(string header, PbProgram program) except +raise_fault

    cppclass CProtobufEncoder "fabric::codecs::ProtobufEncoder"(CEncoder):
        CProtobufEncoder(const ArrowSchema& schema, PbProgram program,
                         string header) except +raise_fault


cdef int ask_avro(void* decoder, const string& header, string* reason) except -1 with gil:
    """Add the program of a schema id to a decoder; 0 with a reason if rows of it are bad."""
    cdef AvroDecoder found = <AvroDecoder> decoder
    cdef bytes text = header
    program = found.lookup(int.from_bytes(text[1:], "big"))
    if isinstance(program, str):
        reason[0] = program.encode()
        return 0
    found.put(header, program)
    return 1


@cython.final
cdef class AvroDecoder(Decoder):
    """Decodes Avro values into rows of `schema`.

    Parameters
    ----------
    schema
        The wanted columns; `pyarrow.Schema`.
    program
        The `Program` that reads every row into these columns; None with a `lookup`.
    lookup
        For rows that start with a zero byte and a schema id. Called once per id during `decode`,
        with the GIL: returns the program that reads rows with this id, or a string that says why
        they are bad (and is then called again for the next row). `decode` raises its exceptions.
    Raises
    ------
    ValueError
        If a column has an unsupported type.
    Examples
    --------
    >>> import pyarrow as pa
    >>> from fabric.io.codecs.avro_reader import avro_program
    >>> from fabric.io.codecs.avro_schema import parse_avro
    >>> field = '{"name": "x", "type": "int"}'
    >>> writer = parse_avro('{"type": "record", "name": "P", "fields": [' + field + "]}")
    >>> columns = pa.schema([("x", pa.int64())])
    >>> decoder = AvroDecoder(columns, avro_program(writer, columns))
    >>> found = decoder.decode(pa.array([b"\\x02", b"\\x80", None], pa.binary()))
    >>> found.batch["x"].to_pylist(), found.bad[0].row, found.bad[0].reason
    ([1, None], 1, 'a number is truncated at byte 1 of 1')
    """

    cdef object lookup

    def __cinit__(self, schema not None, program=None, *, lookup=None):
        self.lookup = lookup
        cdef Lookup asked
        if lookup is not None:
            asked = lookup_of(<void*> self, ask_avro)
        self.core.reset(new CAvroDecoder(self.prepare(schema)[0], asked))
        if lookup is None:
            self.put(b"", program)

    cdef int put(self, const string& header, object program) except -1:
        (<CAvroDecoder*> self.core.get()).put(header, avro_program_of(program))
        return 0


@cython.final
cdef class AvroEncoder(Encoder):
    """Encodes rows of `schema` as Avro values.

    Parameters
    ----------
    schema
        The columns; `pyarrow.Schema`.
    program
        The result of `written_program` for these columns and an Avro schema.
    header
        Bytes that each value starts with: the schema id of a registry.
    Raises
    ------
    ValueError
        If a column has an unsupported type.
    Examples
    --------
    >>> import pyarrow as pa
    >>> from fabric.io.codecs.avro_arrow import derived_avro
    >>> from fabric.io.codecs.avro_writer import written_program
    >>> columns = pa.schema([("x", pa.int64())])
    >>> encoder = AvroEncoder(columns, written_program(columns, derived_avro(columns)))
    >>> encoder.encode(pa.record_batch({"x": pa.array([1, None])})).to_pylist()
    [b'\\x02\\x02', b'\\x00']
    """

    def __cinit__(self, schema not None, program not None, *, header=b""):
        self.core.reset(new CAvroEncoder(self.prepare(schema)[0], avro_program_of(program), header))


cdef AvroProgram avro_program_of(object program):
    cdef AvroProgram made
    cdef AvroNode made_node
    for op, column, a, b, children in program.nodes:
        made_node.op, made_node.column_id = <AvroOp> (<int> op), column
        made_node.a, made_node.b, made_node.children = a, b, children
        made.nodes.push_back(made_node)
    for text in program.texts:
        made.texts.push_back(text)
    made.root = program.root
    return made


cdef int ask_protobuf(void* decoder, const string& header, string* reason) except -1 with gil:
    """Add the program of a header to a decoder; 0 with a reason if rows of it are bad."""
    cdef ProtobufDecoder found = <ProtobufDecoder> decoder
    cdef bytes text = header
    program = found.lookup(int.from_bytes(text[1:5], "big"), indexes_of(text[5:]))
    if isinstance(program, str):
        reason[0] = program.encode()
        return 0
    found.put(header, program)
    return 1


cdef tuple indexes_of(bytes text):
    """The message indexes: their count and values, zig-zag encoded; a single 0 means (0,)."""
    numbers, value, shift = [], 0, 0
    for byte in text:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append((value >> 1) ^ -(value & 1))
            value, shift = 0, 0
    return tuple(numbers[1:]) or (0,)


@cython.final
cdef class ProtobufDecoder(Decoder):
    """Decodes Protobuf messages into rows of `schema`.

    Parameters
    ----------
    schema
        The wanted columns; `pyarrow.Schema`.
    program
        The `Program` that reads every row into these columns; None with a `lookup`.
    lookup
        For rows that start with a zero byte, a schema id and the indexes of a message. Called once
        per such header during `decode`, with the GIL: returns the program that reads its rows, or a
        string that says why they are bad. `decode` raises its exceptions.
    Raises
    ------
    ValueError
        If a column has an unsupported type.
    Examples
    --------
    >>> import pyarrow as pa
    >>> from google.protobuf.duration_pb2 import Duration
    >>> from fabric.io.codecs.protobuf_program import protobuf_program
    >>> columns = pa.schema([("nanos", pa.int32())])
    >>> decoder = ProtobufDecoder(columns, protobuf_program(Duration.DESCRIPTOR, columns))
    >>> rows = pa.array([Duration(nanos=7).SerializeToString(), b""])
    >>> decoder.decode(rows).batch["nanos"].to_pylist()
    [7, 0]
    """

    cdef object lookup

    def __cinit__(self, schema not None, program=None, *, lookup=None):
        self.lookup = lookup
        cdef Lookup asked
        if lookup is not None:
            asked = lookup_of(<void*> self, ask_protobuf)
        self.core.reset(new CProtobufDecoder(self.prepare(schema)[0], asked))
        if lookup is None:
            self.put(b"", program)

    cdef int put(self, const string& header, object program) except -1:
        (<CProtobufDecoder*> self.core.get()).put(header, protobuf_program_of(program))
        return 0


@cython.final
cdef class ProtobufEncoder(Encoder):
    """Encodes rows of `schema` as Protobuf messages.

    Parameters
    ----------
    schema
        The columns; `pyarrow.Schema`.
    program
        The result of `protobuf_program` for a message and these columns, with ``writes=True``.
    header
        Bytes that each value starts with: the schema id and the message indexes.
    Raises
    ------
    ValueError
        If a column has an unsupported type.
    Examples
    --------
    >>> import pyarrow as pa
    >>> from google.protobuf.duration_pb2 import Duration
    >>> from fabric.io.codecs.protobuf_program import protobuf_program
    >>> columns = pa.schema([("nanos", pa.int32())])
    >>> program = protobuf_program(Duration.DESCRIPTOR, columns, writes=True)
    >>> encoder = ProtobufEncoder(columns, program)
    >>> encoder.encode(pa.record_batch({"nanos": pa.array([7, 0], pa.int32())})).to_pylist()
    [b'\\x10\\x07', b'']
    """

    def __cinit__(self, schema not None, program not None, *, header=b""):
        self.core.reset(
            new CProtobufEncoder(self.prepare(schema)[0], protobuf_program_of(program), header))


cdef PbProgram protobuf_program_of(object program):
    cdef PbProgram made
    cdef PbMessage message
    cdef PbField field
    cdef PbEnum names
    for fields, absent in program.messages:
        message.fields.clear()
        for one in fields:
            field.number, field.type = one.number, <PbType> (<int> one.type)
            field.shape = <PbShape> (<int> one.shape)
            field.is_repeated, field.has_presence = one.is_repeated, one.has_presence
            field.is_required, field.is_packed = one.is_required, one.is_packed
            field.column_id, field.message_id = one.column, one.message
            field.enum_id, field.oneof_id = one.enum, one.oneof
            message.fields.push_back(field)
        message.absent = absent
        made.messages.push_back(message)
    for is_closed, values in program.enums:
        names.is_closed = is_closed
        names.names.clear()
        names.numbers.clear()
        for name, number in values:
            if names.names.count(number) == 0:  # the first of several names
                names.names[number] = name.encode()
            names.numbers[name.encode()] = number
        made.enums.push_back(names)
    return made
