"""Avro rows to columns and back: the Python interface of `avro.hpp`.

One job: pass on the programs that `fabric.io.codecs.avro_reader` compiles, and request one when a
row has a schema id that is new. About 15 ns per field, GIL released.
"""

cimport cython

from fabric._cython.codecs.framed cimport Lookup, lookup_of


cdef int ask(void* decoder, const string& header, string* reason) except -1 with gil:
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

    def __cinit__(self, schema not None, program=None, *, lookup=None):
        self.lookup = lookup
        cdef Lookup asked
        if lookup is not None:
            asked = lookup_of(<void*> self, ask)
        self.core.reset(new CAvroDecoder(self.prepare(schema)[0], asked))
        if lookup is None:
            self.put(b"", program)

    cdef int put(self, const string& header, object program) except -1:
        (<CAvroDecoder*> self.core.get()).put(header, program_of(program))
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
        self.core.reset(new CAvroEncoder(self.prepare(schema)[0], program_of(program), header))


cdef AvroProgram program_of(object program):
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
