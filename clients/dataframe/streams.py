"""Streams: where they are read from, windows, states, and what they are written to.

One job: the public names, as ``fabric.streams``, and among them the states of a `fabric.Process`,
one function a kind: `DataFrame.process` gives each the name it is declared under. A value lives for
``ttl`` (without one for ever) after it was last written, or with ``ttl_on="read"`` last written or
read, by the clock of the tasks.

    from fabric import streams

    bids = streams.nexmark("bid", events_per_s=10_000).with_watermark("dateTime", "5 seconds")
    bids.group_by("auction").window("1 minute").count().write_stream("per_minute")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pyarrow as pa

from fabric.clients.dataframe.calls import helpful_functions
from fabric.clients.dataframe.durations import Length, maybe_us
from fabric.clients.dataframe.expressions.literal import DTypeLike, to_dtype
from fabric.clients.dataframe.expressions.udf import own_object
from fabric.clients.dataframe.names import choice
from fabric.clients.dataframe.readers import streams as _readers
from fabric.clients.dataframe.readers.kafka import read_kafka
from fabric.clients.dataframe.readers.streams import *  # noqa: F403
from fabric.clients.dataframe.targets import (
    to_blackhole,
    to_dataset,
    to_files,
    to_flight,
    to_kafka,
    to_postgres,
)
from fabric.clients.dataframe.windows import (
    count_window,
    cumulative,
    global_window,
    session,
    sliding,
    tumbling,
)
from fabric.errors import PlanError
from fabric.event_time import END_OF_TIME
from fabric.plan.nodes import StateField, StateKind, TtlOn
from fabric.plan.types import numeric
from fabric.state import Aggregate
from fabric.state.spec import Fold

__all__ = [
    "END_OF_TIME",
    "aggregating_state",
    "count_window",
    "cumulative",
    "global_window",
    "list_state",
    "map_state",
    "read_kafka",
    "reducing_state",
    "session",
    "sliding",
    "to_blackhole",
    "to_dataset",
    "to_files",
    "to_flight",
    "to_kafka",
    "to_postgres",
    "tumbling",
    "value_state",
]
__all__ += _readers.__all__


def value_state(
    dtype: DTypeLike, *, ttl: Length | None = None, ttl_on: TtlOn = "write"
) -> StateField:
    """One value a key; gone `ttl` after it was last written, by the clock of the tasks.

    Without `ttl` it stays; with ``ttl_on="read"`` reading it counts, too.

    >>> value_state("int64", ttl="1 day").ttl_us
    86400000000
    """
    return _state("value", dtype, ttl, ttl_on)


def list_state(
    dtype: DTypeLike, *, ttl: Length | None = None, ttl_on: TtlOn = "write"
) -> StateField:
    """A list a key; `dtype` is that of an element. `ttl` and `ttl_on` as for `value_state`.

    >>> list_state("int64").kind
    'list'
    """
    return _state("list", dtype, ttl, ttl_on)


def map_state(
    entry: DTypeLike, dtype: DTypeLike, *, ttl: Length | None = None, ttl_on: TtlOn = "write"
) -> StateField:
    """A map a key, from values of type `entry` to values of type `dtype`; see `value_state`.

    >>> field = map_state("string", "int64", ttl="1 hour", ttl_on="read")
    >>> str(field.key_dtype), str(field.dtype), field.ttl_on
    ('string', 'int64', 'read')
    """
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
    if isinstance(function, str):
        choice(function, get_args(Fold), "reducing_state", "function")
    elif not callable(function):
        raise PlanError(
            f"reducing_state takes {', '.join(map(repr, get_args(Fold)))} or a function of two "
            f"values, got {function!r}"
        )
    if function == "sum" and numeric(to_dtype(dtype)) is None:
        raise PlanError(f"reducing_state: numbers have a sum, {to_dtype(dtype)} has not")
    return _state("reducing", dtype, ttl, ttl_on, function=function)


def aggregating_state(
    dtype: DTypeLike,
    aggregate: Aggregate | tuple[Callable[..., Any], ...],
    *,
    ttl: Length | None = None,
    ttl_on: TtlOn = "write",
) -> StateField:
    """An accumulator of type `dtype` a key, folded by a `fabric.state.Aggregate`.

    A tuple of its functions will do, too; anything else is a `PlanError`.

    >>> aggregating_state("int64", (lambda: 0, lambda total, value: total + value)).kind
    'aggregating'
    """
    if not _is_folding(aggregate):
        raise PlanError(f"aggregating_state takes a fabric.state.Aggregate, got {aggregate!r}")
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
    ttl_us = maybe_us(ttl, "ttl", least=1) or 0
    choice(ttl_on, get_args(TtlOn), f"{kind}_state", "ttl_on")
    return StateField("", kind, to_dtype(dtype), key_dtype, made, ttl_us, ttl_on)


def _is_folding(aggregate: object) -> bool:
    parts = aggregate if isinstance(aggregate, tuple) else ()
    return isinstance(aggregate, Aggregate) or (len(parts) in (2, 3) and all(map(callable, parts)))


helpful_functions(globals())
