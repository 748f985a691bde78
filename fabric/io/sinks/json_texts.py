"""Rows as JSON, an object a line.

One job: `lines`, and `json_column` for what keeps JSON beside other columns, over the native
encoder of JSON. Null is written as null, so that every object has every key. NaN and infinities,
which JSON has not, are null, as Polars and pandas write them; times are ISO 8601, those with a zone
in UTC; bytes are base64; decimals are numbers with all their digits; maps with keys of text are
objects.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric._cython.codecs.text import JsonEncoder
from fabric.errors import DataError, PlanError
from fabric.io.schemas import flat_column
from fabric.plan.types import flat_type, is_string


def has_json_form(dtype: pa.DataType) -> bool:
    """Whether values of a type can be written as JSON."""
    return _has_form(flat_type(dtype))


def check_json(schema: pa.Schema, path: str) -> None:
    """Refuse a column that JSON has no form for."""
    for field in schema:
        if not has_json_form(field.type):
            raise PlanError(
                f"a JSON file can't hold column {field.name!r} of type {field.type} ({path}); cast "
                "it to a number or a string, or write Parquet"
            )


def _has_form(dtype: pa.DataType) -> bool:
    if t.is_map(dtype):
        return is_string(dtype.key_type) and _has_form(dtype.item_type)
    if t.is_nested(dtype) and not t.is_union(dtype):
        return all(_has_form(dtype.field(i).type) for i in range(dtype.num_fields))
    has_not = (t.is_union, t.is_duration, t.is_interval, t.is_dictionary)
    return not any(test(dtype) for test in has_not)


def lines(batch: pa.RecordBatch) -> bytes:
    """The rows of `batch`.

    >>> lines(pa.record_batch({"a": [1, None], "b": [["x"], []]}))
    b'{"a":1,"b":["x"]}\\n{"a":null,"b":[]}\\n'
    """
    if not batch.num_columns:
        return b"{}\n" * int(batch.num_rows)
    objects = _objects(batch.schema.names, batch.columns)
    return b"".join(text + b"\n" for text in objects.to_pylist())


def json_column(column: pa.Array) -> pa.Array:
    """Each value of a column as JSON, null where it is; a large_string array.

    >>> json_column(pa.array([{"a": 1}, None])).to_pylist()
    ['{"a":1}', None]
    """
    texts = pc.binary_slice(_objects([""], [column]), len('{"":'), -1).cast(pa.large_string())
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.large_string()))


def _objects(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
    rows = pa.RecordBatch.from_arrays([flat_column(column) for column in columns], [*names])
    try:
        return JsonEncoder(rows.schema).encode(rows)
    except ValueError as error:
        raise DataError(f"JSON can't hold these rows: {error}") from error
