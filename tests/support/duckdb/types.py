"""Arrow types as DuckDB type names: that one table."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.types import is_binary, is_list, is_string, is_struct, plain

_NAMES: dict[pa.DataType, str] = {
    pa.null(): "INTEGER",
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
    pa.float16(): "FLOAT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
}


def type_sql(dtype: pa.DataType) -> str:
    """The DuckDB type that holds the values of `dtype`; raises `ValueError` when there is none.

    >>> type_sql(pa.decimal128(10, 2))
    'DECIMAL(10,2)'
    """
    dtype = plain(dtype)
    if dtype in _NAMES:
        return _NAMES[dtype]
    if t.is_decimal(dtype):
        return f"DECIMAL({dtype.precision},{dtype.scale})"
    if is_list(dtype):
        return f"{type_sql(dtype.value_type)}[]"
    if is_struct(dtype):
        fields = (f"{field_sql(field.name)} {type_sql(field.type)}" for field in dtype.fields)
        return f"STRUCT({', '.join(fields)})"
    families = (
        (is_string, "VARCHAR"), (is_binary, "BLOB"), (t.is_date, "DATE"),
        (t.is_timestamp, "TIMESTAMP"), (t.is_time, "TIME"), (t.is_duration, "INTERVAL"),
    )  # fmt: skip
    name = next((name for test, name in families if test(dtype)), None)
    if name is None:
        raise ValueError(f"no DuckDB type for {dtype}")
    return name


def field_sql(name: str) -> str:
    """The name of a field of a struct.

    >>> print(field_sql("a b"))
    "a b"
    """
    return '"' + name.replace('"', '""') + '"'
