"""A column of lists as its values, its lengths, and which rows are null.

One job: `Lists`. A list array may begin anywhere and may hide values behind null rows; here all
values belong to a row, in order, so that numpy can compute with positions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fabric.errors import ExpressionError

VALUES_MAX = (1 << 31) - 1
"""Positions in an Arrow list are int32: all lists of a batch together hold no more values."""

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Lists:
    """`values` of all rows one after the other; row i has ``sizes[i]`` of them.

    `null` says which rows are null (None: no row); those have size 0.
    """

    values: pa.Array
    sizes: Numbers
    null: Flags | None = None

    @classmethod
    def of(cls, array: pa.Array) -> Lists:
        """The lists in a list array.

        >>> lists = Lists.of(pa.array([[1, 2], None, []]))
        >>> lists.values.to_pylist(), lists.sizes.tolist(), lists.null.tolist()
        ([1, 2], [2, 0, 0], [False, True, False])
        """
        sizes = pc.fill_null(pc.list_value_length(array), 0)
        null = None
        if array.null_count:
            null = flags(pc.is_null(array))
        return cls(array.flatten(), sizes.to_numpy(zero_copy_only=False).astype(np.int64), null)

    @cached_property
    def ends(self) -> Numbers:
        """Where each row ends in `values`."""
        ends: Numbers = np.cumsum(self.sizes)
        return ends

    @cached_property
    def starts(self) -> Numbers:
        """Where each row begins in `values`."""
        return self.ends - self.sizes

    @cached_property
    def rows(self) -> Numbers:
        """The row of each value."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def places(self) -> Numbers:
        """The position of each value in its list."""
        return np.arange(len(self.values)) - self.starts[self.rows]

    @cached_property
    def missing(self) -> Flags:
        """Which values are null."""
        return flags(pc.is_null(self.values))

    def with_values(self, values: pa.Array) -> Lists:
        """The same lists of other values."""
        return replace(self, values=values)

    def take(self, order: Numbers) -> Lists:
        """The same lists with their values in another order; none goes to another row."""
        return replace(self, values=self.values.take(pa.array(order)))

    def keep(self, wanted: Flags) -> Lists:
        """Only the values where `wanted` is true."""
        sizes = count(self.rows[wanted], len(self.sizes))
        return Lists(self.values.filter(pa.array(wanted)), sizes, self.null)

    def nulled(self, null: Flags) -> Lists:
        """Also null where `null` is true."""
        kept = self.keep(~null[self.rows])
        return replace(kept, null=null if self.null is None else self.null | null)

    def array(self) -> pa.ListArray:
        """The lists as an Arrow array.

        Raises
        ------
        ExpressionError
            If they are more values than an Arrow array holds.
        """
        total = int(self.sizes.sum())
        check_total(total)
        offsets = np.zeros(len(self.sizes) + 1, np.int32)
        np.cumsum(self.sizes, out=offsets[1:])
        mask = None if self.null is None or not self.null.any() else pa.array(self.null)
        return pa.ListArray.from_arrays(pa.array(offsets), self.values, mask=mask)


def check_total(n_values: int) -> None:
    """Refuse more values than the lists of one batch can hold."""
    if n_values > VALUES_MAX:
        raise ExpressionError(
            f"overflow: lists of {n_values} values in one batch, at most {VALUES_MAX} fit"
        )


def count(rows: Numbers, n_rows: int) -> Numbers:
    """How often each row occurs."""
    return np.bincount(rows, minlength=n_rows).astype(np.int64)


def flags(values: pa.Array) -> Flags:
    """A boolean array without nulls as numpy."""
    array: Flags = values.to_numpy(zero_copy_only=False).astype(bool)
    return array


def either(left: Flags | None, right: Flags | None) -> Flags | None:
    """Where one of two is true; None is nowhere."""
    if left is None or right is None:
        return right if left is None else left
    return left | right


def struct_array(
    fields: list[pa.Array], dtype: pa.DataType, like: pa.Array | None = None
) -> pa.Array:
    """A struct of `dtype` of one array a field, null where `like` is."""
    mask = None if like is None or not like.null_count else pc.is_null(like)
    return pa.StructArray.from_arrays(fields, fields=list(dtype.fields), mask=mask)
