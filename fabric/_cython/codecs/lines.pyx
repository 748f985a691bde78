"""Rows as lines of CSV, and rows of one column as plain text or bytes.

One job: the face of `lines.hpp`. Fields mean what `fabric.io.files.csv` reads: an empty field is
null, a quoted empty one the text ""; and are written as Arrow's writer of CSV files does.
"""

import pyarrow as pa

cimport cython
from cython.operator cimport dereference

cdef dict STYLES = {"necessary": 0, "always": 1, "never": 2}


@cython.final
cdef class CsvDecoder(Decoder):
    """A line of CSV each, by position: fields of `schema`, of which `columns` are wanted.

    One line end behind it is allowed; quoted fields may hold others. A value is bad where its line
    has too few or too many fields, quotes that are not closed or go on, a second line, a field that
    is none of its type (spaces around numbers and times are not looked at), or text that is not
    UTF-8. Bytes are as they are; durations are numbers of their unit.

    Parameters
    ----------
    schema
        `pyarrow.Schema` of all fields of a line, in order.
    columns
        Names of the wanted columns, in any order; None: all.
    delimiter, quote
        One ASCII character each; `quote` may be empty for no quoting.
    null_values
        Texts that are null besides, also in quotes.
    fill
        Whether missing fields are null and further ones cut off, instead of bad.
    Raises
    ------
    ValueError
        If a wanted column is nested, or a character is not one.
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
        raise ValueError(f"a delimiter or quote is one ASCII character, not {text!r}")
    return ord(text)


@cython.final
cdef class CsvEncoder(Encoder):
    """Rows of `schema` to lines of CSV without a line end.

    Parameters
    ----------
    schema
        `pyarrow.Schema` of the columns.
    delimiter
        One ASCII character.
    quote_style
        Which values are in quotes: "necessary" all texts and bytes, "always" all but nulls, "never"
        none: then a text with a quote, a delimiter or a line end is a ValueError.
    Raises
    ------
    ValueError
        If a column is nested, or there is no such style.
    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.record_batch({"a": [1.0, None], "b": ["", "x, y"]})
    >>> CsvEncoder(rows.schema).encode(rows).to_pylist()
    [b'1,""', b',"x, y"']
    """

    def __cinit__(self, schema not None, str delimiter=",", str quote_style="necessary"):
        if quote_style not in STYLES:
            raise ValueError(f"quote_style is one of {', '.join(STYLES)}, not {quote_style!r}")
        self.core = make_csv_encoder(dereference(self.prepare(schema)), one_character(delimiter),
                                     <Quoting> (<int32_t> STYLES[quote_style]))


@cython.final
cdef class TextDecoder(Decoder):
    """The one column of `schema` is the text of the value: UTF-8, a number, a time; or its bytes.

    Raises
    ------
    ValueError
        If there is not one column, or it is nested.
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
    """The one column of `schema` as text; bytes and text as they are. Null is a null value.

    Raises
    ------
    ValueError
        If there is not one column, or it is nested.
    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.record_batch({"a": ["x", None]})
    >>> TextEncoder(rows.schema).encode(rows).to_pylist()
    [b'x', None]
    """

    def __cinit__(self, schema not None):
        self.core = make_text_encoder(dereference(self.prepare(schema)))
