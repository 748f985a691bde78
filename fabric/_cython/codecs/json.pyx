"""Rows as JSON objects, one document a value.

One job: the Python interface of `json.hpp`. Values are read like `fabric.io.files.ndjson` and
written like `fabric.io.sinks.json_texts`: times are ISO 8601 (also read as a number in the type's
unit), bytes base64, decimals numbers with all their digits (also read as strings), maps objects.
"""

cimport cython
from cython.operator cimport dereference


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
