"""What a state is: its name, kind, key and value types, and how long a value lives.

One job: `StateSpec`, checked at birth. How types may change between two runs is `evolution.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import pyarrow as pa

from fabric._cython.kernels.rows import RowCodec
from fabric.errors import ConfigError
from fabric.plan.faults import with_article

Kind = Literal["value", "list", "map", "reducing", "aggregating"]
LINKED: tuple[Kind, ...] = ("list", "map")
"""A key of these has several entries, each with a sub-key."""
Refresh = Literal["write", "read"]
Fold = Literal["sum", "min", "max", "first", "last"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """How an aggregating state folds values into an accumulator, all of it Python's own values.

    `result` makes an accumulator what is read (of `result_dtype`; the accumulator itself by
    default). With `columns` a whole batch is folded by one call: it is given the accumulators of
    the keys in the batch (null where there is none yet), the index of the accumulator of each
    value (int64) and the values, and gives the new accumulators.
    """

    create: Callable[[], Any]
    add: Callable[[Any, Any], Any]
    result: Callable[[Any], Any] | None = None
    result_dtype: pa.DataType | None = None
    columns: Callable[[pa.Array, Any, pa.Array], pa.Array] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpec:
    """One named state of a task.

    `dtype` is the type of a value, of an element of a list, of a map's values, or of an
    accumulator; `key_dtype` that of a map's own keys. `function` belongs to a reducing state (a
    `Fold` by name, which runs on columns, or a Python function of two values) or to an aggregating
    one. With `ttl_us` a value, an element or a map's entry is gone so long after it was last
    written, or with ``ttl_on="read"`` last written or read.

    >>> spec = StateSpec(name="n", kind="value", keys=pa.schema({"user": "string"}), dtype="int64")
    >>> spec.dtype
    DataType(int64)
    """

    name: str
    kind: Kind
    keys: pa.Schema
    dtype: pa.DataType
    key_dtype: pa.DataType | None = None
    function: Fold | Callable[[Any, Any], Any] | Aggregate | None = None
    ttl_us: int = 0
    ttl_on: Refresh = "write"

    def __post_init__(self) -> None:
        for field in ("dtype", "key_dtype"):
            if isinstance(getattr(self, field), str):
                object.__setattr__(self, field, pa.type_for_alias(getattr(self, field)))
        if self.kind not in get_args(Kind):
            raise self._wrong(f"kind is one of {', '.join(get_args(Kind))}, not {self.kind!r}")
        if self.ttl_us < 0 or self.ttl_on not in get_args(Refresh):
            raise self._wrong(
                f"ttl_us is 0 or more, ttl_on write or read, got {self.ttl_us}, {self.ttl_on!r}"
            )
        if (self.kind == "map") != (self.key_dtype is not None):
            raise self._wrong("key_dtype is given to a map state, and to no other")
        self._check_function()
        for codec in (self.key_codec, self.value_codec, self.sub_codec):
            codec()

    def _check_function(self) -> None:
        match self.kind, self.function:
            case "reducing", str(fold):
                if fold not in get_args(Fold):
                    known = ", ".join(get_args(Fold))
                    raise self._wrong(f"a fold is one of {known} or a function, not {fold!r}")
                if fold == "sum" and not _is_number(self.dtype):
                    raise self._wrong(f"numbers have a sum, {self.dtype} has not")
            case "reducing", function if callable(function):
                pass
            case "aggregating", Aggregate():
                pass
            case "value" | "list" | "map", None:
                pass
            case _:
                raise self._wrong(
                    f"{with_article(self.kind)} state can't have function {self.function!r}"
                )

    def key_codec(self) -> RowCodec:
        """Rows of the keys."""
        return self._codec(self.keys, canonical=True)

    def value_codec(self) -> RowCodec:
        """Rows of values."""
        return self._codec(pa.schema([("value", self.dtype)]))

    def sub_codec(self) -> RowCodec | None:
        """Rows of a map's own keys."""
        if self.key_dtype is None:
            return None
        return self._codec(pa.schema([("key", self.key_dtype)]), canonical=True)

    @property
    def linked(self) -> bool:
        """Whether a key has several entries."""
        return self.kind in LINKED

    def _codec(self, schema: pa.Schema, *, canonical: bool = False) -> RowCodec:
        try:
            return RowCodec(schema, canonical)
        except TypeError as error:
            raise self._wrong(str(error)) from error

    def _wrong(self, what: str) -> ConfigError:
        return ConfigError(f"state {self.name!r}: {what}")


def _is_number(dtype: pa.DataType) -> bool:
    is_number = pa.types.is_integer(dtype) or pa.types.is_floating(dtype)
    return bool(is_number or pa.types.is_decimal(dtype))
