"""Batches from foreign clients, and what is let in of them.

One job: pure functions over one batch or schema. Bytes from outside may lie about offsets, which
would kill a kernel. What goes to foreign clients is cut by `flight/foreign.hpp`.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.errors import DataError

MESSAGE_ROWS_MAX = 1 << 24
COLUMNS_MAX = 4096
NAME_CHARS_MAX = 1024
DEPTH_MAX = 64
METADATA_BYTES_MAX = 1 << 20


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of no rows: what events ride on.

    >>> empty_batch(pa.schema([("a", pa.int64())])).num_rows
    0
    """
    arrays = [pa.array([], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def check_foreign_schema(schema: pa.Schema) -> None:
    """Raise `DataError` when a schema from outside is not one to work with."""
    if not 0 < len(schema) <= COLUMNS_MAX:
        raise DataError(f"a stream has 1 to {COLUMNS_MAX} columns, this one has {len(schema)}")
    seen: set[str] = set()
    for field in schema:
        name = field.name
        if not name or len(name) > NAME_CHARS_MAX or "\0" in name:
            raise DataError(
                f"column name {name[:40]!r} is not allowed; use 1 to {NAME_CHARS_MAX} characters"
            )
        if name in seen:
            raise DataError(f"column {name[:80]!r} is there twice; column names must differ")
        seen.add(name)
        _check_type(field.type, field.name)
    if sum(len(k) + len(v) for k, v in (schema.metadata or {}).items()) > METADATA_BYTES_MAX:
        raise DataError(f"a schema has at most {METADATA_BYTES_MAX} bytes of metadata")


def check_foreign_batch(batch: pa.RecordBatch, schema: pa.Schema) -> None:
    """Raise `DataError` unless every value of a batch from outside can be read safely."""
    if batch.num_rows > MESSAGE_ROWS_MAX:
        raise DataError(
            f"a message has at most {MESSAGE_ROWS_MAX} rows, this one has {batch.num_rows}"
        )
    try:
        batch.validate(full=True)
    except (pa.ArrowException, ValueError) as error:
        text = str(error).splitlines()[0][:300]
        raise DataError(f"a batch of the stream is damaged: {text}") from error
    for field, column in zip(schema, batch.columns, strict=True):
        if column.null_count and not field.nullable:
            raise DataError(f"column {field.name[:80]!r} is not nullable but holds nulls")


def _check_type(kind: pa.DataType, name: str) -> None:
    """Refuse types that hold code or nest without end."""
    waiting = [(kind, 1)]
    while waiting:
        current, depth = waiting.pop()
        if depth > DEPTH_MAX:
            raise DataError(f"column {name[:80]!r} nests deeper than {DEPTH_MAX} levels")
        if isinstance(current, pa.BaseExtensionType):
            raise DataError(f"column {name[:80]!r} has the extension type {current.extension_name}")
        if isinstance(current, pa.DictionaryType):
            waiting.append((current.value_type, depth + 1))
        waiting += [(current.field(i).type, depth + 1) for i in range(current.num_fields)]
