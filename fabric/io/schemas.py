"""Schemas of sources: what a plan may rely on.

One job: strip a schema to names and types, refuse doubled names, say how two schemas differ, and
merge them.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from fabric._cython.codecs.codec import flat_type as layout_type
from fabric._cython.codecs.codec import in_layout
from fabric.errors import DataError
from fabric.plan.types import flat_type


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


def merged(known: pa.Schema, found: pa.Schema, *, widen: bool) -> pa.Schema:
    """The schema of files of both; raises `DataError` with how they differ.

    A column of nulls takes the other's type. Only with `widen` may columns be missing, and
    narrower numbers become wider ones.

    >>> merged(pa.schema([("a", pa.int8())]), pa.schema([("a", pa.int64())]), widen=True)
    a: int64
    """
    if widen:
        try:
            return pa.unify_schemas([known, found], promote_options="permissive")
        except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
            both = pa.schema([field for field in known if field.name in found.names])
            text = difference(both, pa.schema([found.field(name) for name in both.names]))
            raise DataError(text or str(error)) from error
    both = filled(known, found)
    if text := difference(both, filled(found, both)):
        raise DataError(text)
    return both


def filled(schema: pa.Schema, other: pa.Schema) -> pa.Schema:
    """`schema` with the types of `other` for its columns of nulls."""
    if not any(pa.types.is_null(dtype) for dtype in schema.types):
        return schema
    return pa.schema([
        other.field(f.name) if pa.types.is_null(f.type) and f.name in other.names else f
        for f in schema
    ])  # fmt: skip


def texts_for_nulls(schema: pa.Schema) -> pa.Schema:
    """Columns of which nothing but nulls was seen, as text.

    >>> texts_for_nulls(pa.schema([("a", pa.null())]))
    a: string
    """
    return pa.schema([
        (f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in schema
    ])  # fmt: skip


def flat_schema(schema: pa.Schema) -> pa.Schema:
    """The columns without encodings and views, as native codecs name their types."""
    return pa.schema([(field.name, layout_type(field.type)) for field in schema])


def flat_column(column: pa.Array) -> pa.Array:
    """Values without encodings and views.

    >>> flat_column(pa.array([None, [1]], pa.list_view(pa.int8()))).to_pylist()
    [None, [1]]
    """
    return in_layout(column, flat_type(column.type))
