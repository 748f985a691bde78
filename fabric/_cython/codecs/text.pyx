"""Rows as text: JSON objects, lines of CSV, and one column as plain text or bytes.

One job: the Python interface of `text.hpp`. JSON is read like `fabric.io.files.ndjson`: times are
ISO 8601 (also read as a number in the type's unit), bytes base64, decimals numbers with all their
digits (also read as strings), maps objects. Fields of CSV are read like `fabric.io.files.csv`: an
empty field is null, a quoted empty field is the string "". They are written like Arrow's CSV
writer.
"""

import pyarrow as pa

cimport cython
from cython.operator cimport dereference
from libc.stdint cimport int32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from fabric._cython.codecs.codec cimport CDecoder, CEncoder, Decoder, Encoder, raise_fault
from fabric._cython.kernels.arrow_c cimport ArrowSchema


cdef extern from "codecs/text.hpp" namespace "fabric::codecs" nogil:
    unique_ptr[CDecoder] make_json_decoder(
        const ArrowSchema& schema, cbool framed) except +raise_fault
    unique_ptr[CEncoder] make_json_encoder(
        const ArrowSchema& schema, string prefix) except +raise_fault

    cppclass CsvRules:
        char delimiter
        char quote
        cbool fills
        vector[string] nulls
        vector[int32_t] columns

    cdef enum class Quoting(int32_t):
        texts
        all
        none

    unique_ptr[CDecoder] make_csv_decoder(
        const ArrowSchema& schema, CsvRules rules) except +raise_fault
    unique_ptr[CEncoder] make_csv_encoder(
        const ArrowSchema& schema, char delimiter, Quoting quoting) except +raise_fault
    unique_ptr[CDecoder] make_text_decoder(const ArrowSchema& schema) except +raise_fault
    unique_ptr[CEncoder] make_text_encoder(const ArrowSchema& schema) except +raise_fault

cdef dict STYLES = {"necessary": 0, "always": 1, "never": 2}


@cython.final
cdef class JsonDecoder(Decoder):
    """Decodes JSON documents into rows of `schema` (simdjson, about 0.15 µs for a small one).

    A missing field is null; a field that is not in `schema` is ignored but must be valid JSON. If a
    key occurs twice, the last value counts, as in Python. A string column accepts any value, as it
    is written. ``NaN`` and ``Infinity`` are floats, as in Python.

    A value is bad if it is not exactly one JSON object in UTF-8 (empty, truncated, followed by
    other data, nested deeper than 1,000 levels, with an unpaired surrogate), if a number does not
    fit its type exactly or a string is not valid for its type, or if a non-nullable column is null.

    Parameters
    ----------
    schema
        `pyarrow.Schema` of the wanted columns; names are matched exactly.
    framed
        Whether each document follows the 5-byte header of a schema registry; its id is ignored.
    Raises
    ------
    ValueError
        If a type can't be represented in JSON: unions, intervals.
    Examples
    --------
    >>> import pyarrow as pa
    >>> decoder = JsonDecoder(pa.schema([("a", pa.int8()), ("at", pa.timestamp("s", "UTC"))]))
    >>> found = decoder.decode(pa.array(['{"a": 1, "at": "1970-01-01T00:00:09+00"}', '{"a": 128}']))
    >>> found.batch.column("at").cast("int64").to_pylist(), found.bad
    ([9], (Bad(row=1, reason="column 'a': 128 is not a valid int8"),))
    """

    def __cinit__(self, schema not None, bint framed=False):
        self.core = make_json_decoder(dereference(self.prepare(schema)), framed)


@cython.final
cdef class JsonEncoder(Encoder):
    """Encodes rows of `schema` as compact JSON documents, like Fabric's JSON files.

    Nulls and non-finite floats are written as null. Times with a zone are in UTC; a time outside
    the years -32767 to 32767 is a ValueError. Durations are numbers in their unit.

    Parameters
    ----------
    schema
        `pyarrow.Schema` of the columns.
    prefix
        Bytes written before each document: the header of a schema registry.
    Raises
    ------
    ValueError
        If a type can't be represented in JSON: unions, intervals, maps with nested keys.
    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.record_batch({"a": [1.0, None], "b": [["x"], []]})
    >>> JsonEncoder(rows.schema).encode(rows).to_pylist()
    [b'{"a":1.0,"b":["x"]}', b'{"a":null,"b":[]}']
    """

    def __cinit__(self, schema not None, bytes prefix=b""):
        self.core = make_json_encoder(dereference(self.prepare(schema)), prefix)


@cython.final
cdef class CsvDecoder(Decoder):
    """Decodes lines of CSV by position: `schema` has all fields, `columns` names the wanted ones.

    A trailing line end is allowed, and quoted fields may contain line ends. A value is bad if its
    line has too few or too many fields, an unclosed quote, text after a closing quote, a second
    line, a field that is not valid for its type (spaces around numbers and times are ignored), or
    text that is not UTF-8. Bytes are taken as they are; durations are numbers in their unit.

    Parameters
    ----------
    schema
        `pyarrow.Schema` of all fields of a line, in order.
    columns
        Names of the wanted columns, in any order; None: all.
    delimiter, quote
        One ASCII character each; `quote` may be empty for no quoting.
    null_values
        Further strings that are read as null, also if quoted.
    fill
        Whether missing fields are null and additional ones are dropped, instead of the value being
        bad.
    Raises
    ------
    ValueError
        If a wanted column is nested, or `delimiter` or `quote` is not one character.
    Examples
    --------
    >>> import pyarrow as pa
    >>> decoder = CsvDecoder(pa.schema([("a", pa.int8()), ("b", pa.string())]), ["b"])
    >>> found = decoder.decode(pa.array(['1,"x, y"', '1,', 'x,"', '3']))
    >>> found.batch["b"].to_pylist(), found.bad[1]
    (['x, y', None], Bad(row=3, reason='the line has 1 fields, expected 2'))
    """

    def __cinit__(self, schema not None, columns=None, str delimiter=",", str quote='"',
                  null_values=(), bint fill=False):
        cdef CsvRules rules
        wanted = schema.names if columns is None else list(columns)
        rules.delimiter, rules.quote = one_character(delimiter), 0
        if quote:
            rules.quote = one_character(quote)
        rules.fills = fill
        rules.nulls = [text.encode() for text in null_values]
        rules.columns = [wanted.index(name) if name in wanted else -1 for name in schema.names]
        chosen = pa.schema([schema.field(name) for name in wanted])
        self.core = make_csv_decoder(dereference(self.prepare(chosen)), rules)


cdef char one_character(str text) except? 0:
    if len(text) != 1 or not text.isascii() or text in "\r\n\0":
        raise ValueError(f"a delimiter or quote must be one ASCII character, got {text!r}")
    return ord(text)


@cython.final
cdef class CsvEncoder(Encoder):
    """Encodes rows of `schema` as lines of CSV without a line end.

    Parameters
    ----------
    schema
        `pyarrow.Schema` of the columns.
    delimiter
        One ASCII character.
    quote_style
        Which values are quoted: "necessary" all strings and bytes, "always" all but nulls, "never"
        none: then a string with a quote, a delimiter or a line end is a ValueError.
    Raises
    ------
    ValueError
        If a column is nested, or the style is unknown.
    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.record_batch({"a": [1.0, None], "b": ["", "x, y"]})
    >>> CsvEncoder(rows.schema).encode(rows).to_pylist()
    [b'1,""', b',"x, y"']
    """

    def __cinit__(self, schema not None, str delimiter=",", str quote_style="necessary"):
        if quote_style not in STYLES:
            raise ValueError(
                f"quote_style must be one of {', '.join(STYLES)}, got {quote_style!r}")
        self.core = make_csv_encoder(dereference(self.prepare(schema)), one_character(delimiter),
                                     <Quoting> (<int32_t> STYLES[quote_style]))


@cython.final
cdef class TextDecoder(Decoder):
    """Decodes each value as the single column of `schema`: UTF-8 text, a number, a time or bytes.

    Raises
    ------
    ValueError
        If `schema` does not have exactly one column, or the column is nested.
    Examples
    --------
    >>> import pyarrow as pa
    >>> found = TextDecoder(pa.schema([("a", pa.int8())])).decode(pa.array(["7", "x", None]))
    >>> found.batch["a"].to_pylist(), found.bad
    ([7, None], (Bad(row=1, reason="column 'a': 'x' is not a valid int8"),))
    """

    def __cinit__(self, schema not None):
        self.core = make_text_decoder(dereference(self.prepare(schema)))


@cython.final
cdef class TextEncoder(Encoder):
    """Encodes the single column of `schema` as text, bytes unchanged, null as a null value.

    Raises
    ------
    ValueError
        If `schema` does not have exactly one column, or the column is nested.
    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.record_batch({"a": ["x", None]})
    >>> TextEncoder(rows.schema).encode(rows).to_pylist()
    [b'x', None]
    """

    def __cinit__(self, schema not None):
        self.core = make_text_encoder(dereference(self.prepare(schema)))
