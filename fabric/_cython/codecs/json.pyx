"""Rows as JSON objects, one document a value.

One job: the face of `json.hpp`. Values mean what `fabric.io.files.ndjson` reads and are written as
`fabric.io.sinks.json_texts` writes them: times are ISO 8601 (read also as a number of the type's
units), bytes base64, decimals numbers with all their digits (read also as texts), maps objects.
"""

cimport cython
from cython.operator cimport dereference


@cython.final
cdef class JsonDecoder(Decoder):
    """JSON documents (simdjson, about 0.15 µs for a small one) to rows of `schema`.

    A missing field is null, one that is not in `schema` is ignored, though it must be JSON. Of a
    key that is there twice the last value counts, as in Python. A column of text takes any value,
    as it is written. ``NaN`` and ``Infinity`` are floats, as in Python.

    A value is bad where it is not one JSON object in UTF-8 (empty, truncated, followed by anything,
    nested deeper than 1,000 levels, with half a surrogate pair), where a number does not fit its
    type exactly or a text is none of its type, and where a column that can't be null is.

    Parameters
    ----------
    schema
        `pyarrow.Schema` of the wanted columns; names are matched exactly.
    framed
        Whether the 5 bytes of a schema registry come before each document; the id is not looked at.
    Raises
    ------
    ValueError
        If a type has no form in JSON: unions, intervals.
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
    """Rows of `schema` to compact JSON documents, the texts that Fabric's JSON files have.

    Null is written as null, as is a float that is not finite. Times with a zone are in UTC; one
    beyond the years -32767 to 32767 is a ValueError. Durations are numbers of their unit.

    Parameters
    ----------
    schema
        `pyarrow.Schema` of the columns.
    prefix
        What comes before each document: the header of a schema registry.
    Raises
    ------
    ValueError
        If a type has no form in JSON: unions, intervals, maps with nested keys.
    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.record_batch({"a": [1.0, None], "b": [["x"], []]})
    >>> JsonEncoder(rows.schema).encode(rows).to_pylist()
    [b'{"a":1.0,"b":["x"]}', b'{"a":null,"b":[]}']
    """

    def __cinit__(self, schema not None, bytes prefix=b""):
        self.core = make_json_encoder(dereference(self.prepare(schema)), prefix)
