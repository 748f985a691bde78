"""Casts of lists, item by item, and of structs, field by field, as deep as they go.

One job: take the values out, cast them by the kernel of their types, put them back. Values below a
null list or struct are no values: they are never looked at.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.operators.expressions.arrow.casts.shape import Cast
from fabric.operators.expressions.arrow.lists.view import Lists

CastOf = Callable[[pa.DataType, pa.DataType, bool], Cast]


def cast_nested(source: pa.DataType, target: pa.DataType, cast_of: CastOf, *, try_: bool) -> Cast:
    """Between two lists or two structs; `cast_of` gives the casts of what is in them."""
    if t.is_list(target):
        return _cast_list(cast_of(source.value_type, target.value_type, try_))
    pairs = zip(source.fields, target.fields, strict=True)
    return _cast_struct([cast_of(a.type, b.type, try_) for a, b in pairs], target)


def _cast_list(inner: Cast) -> Cast:
    kernel, total = inner

    def convert(value: pa.Array) -> pa.Array:
        lists = Lists.of(value)
        return lists.with_values(kernel(lists.values)).array()

    return convert, total


def _cast_struct(inner: list[Cast], target: pa.DataType) -> Cast:
    def convert(value: pa.Array) -> pa.Array:
        parts = zip(inner, value.flatten(), strict=True)
        fields = [kernel(part) for (kernel, _), part in parts]
        return struct_array(fields, target, value)

    return convert, all(total for _, total in inner)


def struct_array(
    fields: list[pa.Array], dtype: pa.DataType, like: pa.Array | None = None
) -> pa.Array:
    """A struct of `dtype` of one array a field, null where `like` is."""
    mask = None if like is None or not like.null_count else pc.is_null(like)
    return pa.StructArray.from_arrays(fields, fields=list(dtype.fields), mask=mask)
