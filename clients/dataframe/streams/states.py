"""States of a `fabric.Process`, as users declare them.

One job: one function a kind; `DataFrame.process` gives each the name it is declared under. A value
lives for ``ttl`` after it was last written, or with ``ttl_on="read"`` last written or read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from fabric.clients.dataframe.literal import DTypeLike, to_dtype
from fabric.clients.dataframe.streams.lengths import Length, us
from fabric.clients.dataframe.udf import own_object
from fabric.plan.streams import StateField, StateKind, TtlOn


def value_state(
    dtype: DTypeLike, *, ttl: Length | None = None, ttl_on: TtlOn = "write"
) -> StateField:
    """One value a key.

    >>> value_state("int64", ttl="1 day").ttl_us
    86400000000
    """
    return _state("value", dtype, ttl, ttl_on)


def list_state(
    dtype: DTypeLike, *, ttl: Length | None = None, ttl_on: TtlOn = "write"
) -> StateField:
    """A list a key; `dtype` is that of an element."""
    return _state("list", dtype, ttl, ttl_on)


def map_state(
    entry: DTypeLike, dtype: DTypeLike, *, ttl: Length | None = None, ttl_on: TtlOn = "write"
) -> StateField:
    """A map a key, from values of type `entry` to values of type `dtype`."""
    return _state("map", dtype, ttl, ttl_on, key_dtype=to_dtype(entry))


def reducing_state(
    dtype: DTypeLike,
    function: str | Callable[[Any, Any], Any],
    *,
    ttl: Length | None = None,
    ttl_on: TtlOn = "write",
) -> StateField:
    """One value a key that takes in others: "sum", "min", "max", "first", "last", or a function.

    >>> reducing_state("int64", "sum").kind
    'reducing'
    """
    return _state("reducing", dtype, ttl, ttl_on, function=function)


def aggregating_state(
    dtype: DTypeLike, aggregate: Any, *, ttl: Length | None = None, ttl_on: TtlOn = "write"
) -> StateField:
    """An accumulator of type `dtype` a key, folded by a `fabric.state.Aggregate`."""
    return _state("aggregating", dtype, ttl, ttl_on, function=aggregate)


def _state(
    kind: StateKind,
    dtype: DTypeLike,
    ttl: Length | None,
    ttl_on: TtlOn,
    *,
    key_dtype: pa.DataType | None = None,
    function: Any = None,
) -> StateField:
    made = None if function is None else own_object(function, f"{kind} state")
    ttl_us = 0 if ttl is None else us(ttl, "ttl")
    return StateField("", kind, to_dtype(dtype), key_dtype, made, ttl_us, ttl_on)
