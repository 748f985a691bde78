"""Schemas of sources: what a plan may rely on.

One job: strip a schema to names and types, refuse doubled names, and say how two schemas differ.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from fabric.errors import DataError


def checked_schema(schema: pa.Schema, what: str) -> pa.Schema:
    """Names and types only: all nullable, no metadata. Raises `DataError` for a doubled name.

    >>> checked_schema(pa.schema([pa.field("a", pa.int8(), nullable=False)]), "x.parquet")
    a: int8
    """
    doubled = [name for name, n in Counter(schema.names).items() if n > 1]
    if doubled:
        raise DataError(
            f"{what} has {Counter(schema.names)[doubled[0]]} columns called {doubled[0]!r}; "
            "rename all but one of them"
        )
    return pa.schema([(field.name, field.type) for field in schema])


def difference(expected: pa.Schema, found: pa.Schema) -> str:
    """How `found` differs in names, types or order, for a message; empty when it does not.

    >>> difference(pa.schema([("a", pa.int8())]), pa.schema([("a", pa.string())]))
    "column 'a' is string, expected int8"
    """
    if missing := [name for name in expected.names if name not in found.names]:
        return f"it has no column {missing[0]!r}"
    if extra := [name for name in found.names if name not in expected.names]:
        return f"it has another column {extra[0]!r}"
    for field in expected:
        other = found.field(field.name)
        if not other.type.equals(field.type):
            return f"column {field.name!r} is {other.type}, expected {field.type}"
    if expected.names != found.names:
        return f"its columns are in another order: {', '.join(found.names)}"
    return ""
