"""Rows as lines of CSV, and rows of one column as plain text or bytes.

One job: the Python interface of `lines.hpp`. Fields are read like `fabric.io.files.csv`: an empty
field is null, a quoted empty field is the string "". They are written like Arrow's CSV writer.
"""

import pyarrow as pa

cimport cython
from cython.operator cimport dereference

cdef dict STYLES = {"necessary": 0, "always": 1, "never": 2}


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
