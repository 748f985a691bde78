"""What a user's function returned, as rows of the schema that was declared.

One job: `rows_of_returned`, for batches, tables, columns, single rows, and several of them. Columns
may come in any order; their types are cast where every value fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from fabric.errors import ExpressionError
from fabric.plan.faults import with_article
from fabric.plan.literals import array_of

_COLUMNS = (list, tuple, np.ndarray, pa.Array, pa.ChunkedArray)
_SHOWN = 80


def rows_of_returned(found: object, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches of `schema`, as they come: a generator of the user's runs as far as it is asked.

    Raises
    ------
    ExpressionError
        If it is something else, or has other columns.

    Examples
    --------
    >>> schema = pa.schema([("a", pa.int8()), ("b", pa.string())])
    >>> [b.to_pylist() for b in rows_of_returned([{"b": "x", "a": 1}, None], schema)]
    [[{'a': 1, 'b': 'x'}]]
    """
    match found:
        case None:
            return
        case pa.RecordBatch():
            yield _fitted(found, schema)
        case pa.Table():
            for batch in found.to_batches():
                yield _fitted(batch, schema)
        case Mapping():
            yield _of_columns(found, schema)
        case str() | bytes():
            raise _no_rows(found)
        case Iterable():
            for part in found:
                yield from rows_of_returned(part, schema)
        case _:
            raise _no_rows(found)


def _no_rows(found: object) -> ExpressionError:
    return ExpressionError(
        f"it returned {with_article(type(found).__name__)}; return a batch, a table, a dict of "
        "columns or of one row, several of these, or None"
    )


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    _check_names(batch.schema.names, schema)
    columns = [_cast(batch.column(field.name), field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _of_columns(found: Mapping[Any, Any], schema: pa.Schema) -> pa.RecordBatch:
    _check_names(list(found), schema)
    values = [found[field.name] for field in schema]
    are_columns = {isinstance(value, _COLUMNS) for value in values}
    if len(are_columns) > 1 and not any(pa.types.is_nested(field.type) for field in schema):
        raise ExpressionError("it returned columns and single values in one dict")
    if False in are_columns or not are_columns:  # one row, in which a list is a value
        values = [[value] for value in values]
    columns = [_array(value, field) for value, field in zip(values, schema, strict=True)]
    if len({len(column) for column in columns}) > 1:
        lengths = ", ".join(f"{f.name}: {len(c)}" for f, c in zip(schema, columns, strict=True))
        raise ExpressionError(f"it returned columns of different lengths: {lengths}")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _check_names(names: list[Any], schema: pa.Schema) -> None:
    if sorted(map(str, names)) != sorted(schema.names):
        got = ", ".join(map(str, names))[:_SHOWN]
        raise ExpressionError(
            f"it returned the columns {got or 'none'}; declared are {', '.join(schema.names)}"
        )


def _array(value: Any, field: pa.Field) -> pa.Array:
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    if isinstance(value, pa.Array):
        return _cast(value, field)
    try:
        return array_of(value, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ExpressionError(
            f"it returned a value for {field.name} that is not a valid {field.type}: "
            f"{str(error)[:_SHOWN]}"
        ) from error


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type.equals(field.type):
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise ExpressionError(
            f"it returned {column.type} for {field.name}, declared is {field.type}: "
            f"{str(error)[:_SHOWN]}"
        ) from error
