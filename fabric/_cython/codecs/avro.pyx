"""Avro rows to columns and back: the face of `avro.hpp`.

One job: hand it the programs that `fabric.io.codecs.avro_program` makes, and ask for one whenever a
row names a schema that was not met before. About 15 ns a field, GIL released.
"""

cimport cython

from fabric._cython.codecs.framed cimport Lookup, lookup_of


cdef int ask(void* decoder, const string& header, string* reason) except -1 with gil:
    """Make a schema known to a decoder; 0 with a reason when its rows are bad."""
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
    """Rows of Avro to rows of `schema`.

    Parameters
    ----------
    schema
        The wanted columns; `pyarrow.Schema`.
    program
        A `Program` for these columns: it reads every row. None with a `lookup`.
    lookup
        Rows begin with a zero byte and a schema's id. Called once for each id, with the GIL, in the
        midst of `decode`: returns the program that reads its rows, or a text that says why they are
        bad (then it is called again for the next one). What it raises, `decode` raises.
    Raises
    ------
    ValueError
        If a column has a type that no row can be decoded into.
    Examples
    --------
    >>> import pyarrow as pa
    >>> from fabric.io.codecs.avro_program import avro_program
    >>> from fabric.io.codecs.avro_schema import parse_avro
    >>> field = '{"name": "x", "type": "int"}'
    >>> writer = parse_avro('{"type": "record", "name": "P", "fields": [' + field + "]}")
    >>> columns = pa.schema([("x", pa.int64())])
    >>> decoder = AvroDecoder(columns, avro_program(writer, columns))
    >>> found = decoder.decode(pa.array([b"\\x02", b"\\x80", None], pa.binary()))
    >>> found.batch["x"].to_pylist(), found.bad[0].row, found.bad[0].reason
    ([1, None], 1, 'a number is cut off at byte 1 of 1')
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
    """Rows of `schema` to Avro.

    Parameters
    ----------
    schema
        The columns; `pyarrow.Schema`.
    program
        What `written_program` makes of them and an Avro schema.
    header
        What each value begins with: a registry's id.
    Raises
    ------
    ValueError
        If a column has a type that no row can be encoded from.
    Examples
    --------
    >>> import pyarrow as pa
    >>> from fabric.io.codecs.avro_arrow import derived_avro
    >>> from fabric.io.codecs.avro_written import written_program
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
