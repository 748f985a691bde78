"""ANSI casts: `cast_kernel` for every pair of types that `fabric.plan.types.can_cast` allows.

One job: pick the module of a pair of types. Types here are flat (`frame.flat_type`).
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import PlanError
from fabric.operators.expressions.arrow.casts import (
    decimals,
    from_text,
    numbers,
    times,
    to_text,
)
from fabric.operators.expressions.arrow.casts.numbers import Cast
from fabric.operators.expressions.arrow.lists.view import Lists, struct_array
from fabric.operators.expressions.arrow.zones import to_instants, to_wall
from fabric.plan.types import can_cast, is_nested, is_string, is_timestamp
from fabric.plan.zones import local_zone

__all__ = ["cast_kernel"]


def cast_kernel(source: pa.DataType, target: pa.DataType, *, try_: bool = False) -> Cast:
    """The kernel of a cast and whether it is total; with `try_` a failing value is null."""
    if source.equals(target) or t.is_null(source):
        return (lambda value: value.cast(target)), True
    if not can_cast(source, target):
        raise PlanError(f"there is no cast from {source} to {target}")
    if (zoned := _with_clocks(source, target, try_=try_)) is not None:
        return zoned
    if is_nested(target):
        return _nested(source, target, try_=try_)
    if is_string(target) and not is_string(source):
        return to_text.to_text(source, target), True
    if is_string(source) and not is_string(target):
        kernel, total = from_text.from_text(target, try_=try_)
        return (lambda value: kernel(value.cast(pa.string()))), total
    return _typed(source, target, try_=try_)


def _with_clocks(source: pa.DataType, target: pa.DataType, *, try_: bool) -> Cast | None:
    """Between a timestamp with a zone and what has none: by what clocks of the zone show."""
    other = target if local_zone(source) else source
    has_no_zone = t.is_date(other) or (is_timestamp(other) and other.tz is None)
    if not has_no_zone and not (local_zone(source) and is_string(target)):
        return None
    if (zone := local_zone(source)) is not None:
        kernel, total = cast_kernel(pa.timestamp(source.unit), target, try_=try_)
        return (lambda value: kernel(to_wall(value, zone))), total
    if (zone := local_zone(target)) is not None:
        kernel, total = cast_kernel(source, pa.timestamp(target.unit), try_=try_)
        return (lambda value: to_instants(kernel(value), zone)), total
    return None


def _nested(source: pa.DataType, target: pa.DataType, *, try_: bool) -> Cast:
    """Between two lists or two structs, as deep as they go.

    Values below a null list or struct are no values: they are never looked at.
    """
    if t.is_list(target):
        return _cast_list(cast_kernel(source.value_type, target.value_type, try_=try_))
    pairs = zip(source.fields, target.fields, strict=True)
    return _cast_struct([cast_kernel(a.type, b.type, try_=try_) for a, b in pairs], target)


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


def _typed(source: pa.DataType, target: pa.DataType, *, try_: bool) -> Cast:
    """A cast that neither reads nor writes text."""
    if t.is_date(source) or t.is_date(target) or (is_timestamp(source) and is_timestamp(target)):
        return times.cast_times(source, target, try_=try_)
    if is_timestamp(source):
        return times.from_timestamp(source, target, try_=try_)
    if is_timestamp(target):
        return times.to_timestamp(source, target, try_=try_)
    if t.is_decimal(target):
        return decimals.to_decimal(source, target, try_=try_)
    if t.is_decimal(source):
        return decimals.from_decimal(source, target, try_=try_)
    if _is_number(source) and _is_number(target):
        return numbers.cast_numbers(source, target, try_=try_)
    return (lambda value: value.cast(target, safe=False)), True


def _is_number(dtype: pa.DataType) -> bool:
    return bool(t.is_integer(dtype) or t.is_floating(dtype) or t.is_boolean(dtype))
