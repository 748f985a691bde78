"""States that fold what comes into one row a key: reducing and aggregating.

One job: `ReducingState` and `AggregatingState`. A fold by name runs on columns (pyarrow groups the
batch, one row a key is read and written); a Python function is called once a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fabric.errors import DataError, ExpressionError
from fabric.plan.literals import array_of
from fabric.state.backend import Table
from fabric.state.base import Keys, SingleState, fit
from fabric.state.spec import Aggregate, Fold, StateSpec
from fabric.state.ttl import Now


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _least(old: Any, new: Any) -> Any:
    return old if _is_nan(new) or old <= new else new  # NaN is the largest of all, as in Spark


def _greatest(old: Any, new: Any) -> Any:
    return old if _is_nan(old) or old >= new else new


def _sum(old: Any, new: Any) -> Any:
    return _WIDE.add(old, new) if isinstance(old, Decimal) else old + new


_WIDE = Context(prec=100)  # Python's own rounds to 28 digits
_ONE: dict[Fold, Callable[[Any, Any], Any]] = {
    "sum": _sum,
    "min": _least,
    "max": _greatest,
    "first": lambda old, new: old,
    "last": lambda old, new: new,
}


class ReducingState(SingleState):
    """One value a key: all that were added, reduced two by two. Nulls are left out.

    >>> from fabric.state import StateSpec, open_states
    >>> specs = [StateSpec(name="total", kind="reducing", keys=pa.schema({"user": "string"}),
    ...                    dtype="int64", function="sum")]
    >>> total = open_states("memory", specs).state("total")
    >>> total.add_many([pa.array(["ada", "bob", "ada"])], pa.array([1, 2, 3]))
    >>> total.add("ada", 10)
    >>> total.get("ada"), total.get("bob")
    (14, 2)
    """

    def __init__(self, spec: StateSpec, table: Table, now: Now) -> None:
        super().__init__(spec, table, now)
        self._fold = spec.function if isinstance(spec.function, str) else None
        self._reduce: Any = _ONE[self._fold] if self._fold else spec.function
        # Python's times have no nanoseconds; Arrow folds no decimals without wrapping, and no texts
        self._by_column = self._fold is not None and pa.types.is_temporal(spec.dtype)
        self._by_row = self._fold is None or not _folds(spec.dtype)
        self._held = pa.int64() if pa.types.is_duration(spec.dtype) else spec.dtype

    def get(self, key: object) -> Any:
        """What has been added so far, reduced; None when nothing has."""
        return self._get(key)

    def add(self, key: object, value: object) -> None:
        """Reduce one value into its key's."""
        if value is None:
            return None
        if self._by_column:
            rows = pa.array([self._row(self._keys, key)], pa.large_binary())
            return self.add_many(rows, self._array([value]))
        old = self._get(key)
        if self._fold != "sum" or old is None:
            return self._put(key, value if old is None else self._reduce(old, value))
        self._row(self._values, value)  # is it one at all?
        try:
            self._put(key, self._reduce(old, value))
        except DataError as error:
            raise self._overflow(error) from error

    def get_many(self, keys: Keys) -> pa.Array:
        """The value of each key, null where there is none."""
        return self._get_rows(self.key_rows(keys))

    def add_many(self, keys: Keys, values: pa.Array) -> None:
        """Reduce values into their keys', in the order of the rows."""
        rows = self.key_rows(keys)
        try:
            values = fit(values, self.spec.dtype)
        except (TypeError, pa.ArrowException) as error:
            raise self._wrong(error) from error
        if values.null_count:
            there = values.is_valid()
            rows, values = rows.filter(there), values.filter(there)
        if len(rows) == 0:
            return None
        if self._fold is None or self._by_row:
            return self._reduce_rows(rows, values)
        try:
            unique, new = _partial(self._fold, rows, values.view(self._held))
            old = self._get_rows(unique).view(self._held)
            self._put_rows(unique, _MERGED[self._fold](old, new).view(self.spec.dtype))
        except (pa.ArrowInvalid, ExpressionError) as error:
            raise self._overflow(error) from error

    def _reduce_rows(self, rows: pa.LargeBinaryArray, values: pa.Array) -> None:
        encoded = rows.dictionary_encode()
        found = self._get_rows(encoded.dictionary).to_pylist()
        for i, value in zip(encoded.indices.to_pylist(), values.to_pylist(), strict=True):
            found[i] = value if found[i] is None else self._reduce(found[i], value)
        try:
            reduced = self._array(found)
        except DataError as error:
            raise self._overflow(error) if self._fold == "sum" else error from error
        self._put_rows(encoded.dictionary, reduced)

    def _overflow(self, error: Exception) -> ExpressionError:
        return ExpressionError(
            f"state {self.spec.name!r}: a {self._fold} does not fit {self.spec.dtype}: {error}"
        )


class AggregatingState(SingleState):
    """One accumulator a key, of another type than the values that are added."""

    def __init__(self, spec: StateSpec, table: Table, now: Now) -> None:
        super().__init__(spec, table, now)
        assert isinstance(spec.function, Aggregate)
        self._aggregate = spec.function

    def get(self, key: object) -> Any:
        """The result so far; None when nothing has been added."""
        accumulator = self._get(key)
        result = self._aggregate.result
        return accumulator if accumulator is None or result is None else result(accumulator)

    def add(self, key: object, value: object) -> None:
        """Fold one value into its key's accumulator."""
        old = self._get(key)
        self._put(key, self._aggregate.add(self._aggregate.create() if old is None else old, value))

    def get_many(self, keys: Keys) -> pa.Array:
        """The result of each key, null where there is none."""
        accumulators = self._get_rows(self.key_rows(keys))
        result = self._aggregate.result
        if result is None:
            return accumulators
        found = [None if old is None else result(old) for old in accumulators.to_pylist()]
        return array_of(found, self._aggregate.result_dtype or self.spec.dtype)

    def add_many(self, keys: Keys, values: pa.Array) -> None:
        """Fold values into their keys' accumulators, in the order of the rows."""
        encoded = self.key_rows(keys).dictionary_encode()
        old = self._get_rows(encoded.dictionary)
        new = self._folded(old, encoded.indices.to_numpy().astype(np.int64), values)
        self._put_rows(encoded.dictionary, new)

    def _folded(self, old: pa.Array, indices: NDArray[np.int64], values: pa.Array) -> pa.Array:
        if self._aggregate.columns is not None:
            return self._aggregate.columns(old, indices, values)
        found = old.to_pylist()
        for i, value in zip(indices.tolist(), values.to_pylist(), strict=True):
            before = self._aggregate.create() if found[i] is None else found[i]
            found[i] = self._aggregate.add(before, value)
        return self._array(found)


def _partial(
    fold: Fold, rows: pa.LargeBinaryArray, values: pa.Array
) -> tuple[pa.LargeBinaryArray, pa.Array]:
    """Each key of a batch once, and its values folded. Sums are checked."""
    columns = {"key": rows, "value": values}
    wanted = [("value", str(fold))]
    is_float = pa.types.is_floating(values.type)
    if is_checked := fold == "sum" and pa.types.is_integer(values.type):
        columns["float"] = values.cast(pa.float64(), safe=False)
        wanted.append(("float", "sum"))
    if is_float and fold in ("min", "max"):
        columns["nan"] = pc.is_nan(values)
        wanted.append(("nan", "all" if fold == "min" else "any"))
    found = pa.table(columns).group_by("key", use_threads=False).aggregate(wanted)
    keys, new = _one(found.column("key")), _one(found.column(f"value_{fold}"))
    if is_checked:
        _check_sums(new, _one(found.column("float_sum")))
    if "nan" in columns:  # Arrow's extremes leave NaN out
        is_nan = _one(found.column(found.num_columns - 1))
        new = pc.if_else(is_nan, pa.scalar(float("nan"), new.type), new)
    return keys, new.cast(values.type)


def _check_sums(sums: pa.Array, floats: pa.Array) -> None:
    """Arrow's sums of integers wrap: one that did is off by 2**64, one of floats by far less."""
    off = np.abs(floats.to_numpy() - sums.to_numpy().astype(np.float64))
    if (off > 2.0**63).any():
        raise ExpressionError("the sum of a batch has more than 64 bits")


def _larger(old: pa.Array, new: pa.Array) -> pa.Array:
    """The larger side by side; nothing before is null, NaN is the largest."""
    found = pc.max_element_wise(old, new)
    if not pa.types.is_floating(new.type):
        return found
    is_nan = pc.or_(pc.fill_null(pc.is_nan(old), False), pc.is_nan(new))
    return pc.if_else(is_nan, pa.scalar(float("nan"), new.type), found)


def _added(old: pa.Array, new: pa.Array) -> pa.Array:
    """Sums side by side, in the type of `old`; nothing before is null."""
    return pc.add_checked(pc.fill_null(old, pa.scalar(0, old.type)), new)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)


def _folds(dtype: pa.DataType) -> bool:
    """Whether Arrow folds columns of it."""
    is_number = pa.types.is_integer(dtype) or pa.types.is_floating(dtype)
    return bool(is_number or pa.types.is_temporal(dtype))


_MERGED: dict[Fold, Callable[[pa.Array, pa.Array], pa.Array]] = {
    "sum": _added,
    "min": pc.min_element_wise,
    "max": _larger,
    "first": pc.coalesce,
    "last": lambda old, new: pc.coalesce(new, old),
}
