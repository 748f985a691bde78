"""Counts and conditions over all rows: count, count_if, bool_and, bool_or, and distinct values.

One job: their forms. A count is never null; a condition is null where no value is.
`approx_distinct` is HyperLogLog with 2,048 registers (2.3 % off on average), kept sparse, so that
small groups stay small. Hashes are those of the exchange: every type has them, and all NaNs and
both zeros are one value.
"""

from __future__ import annotations

from collections.abc import Mapping

import datafusion
import numpy as np
import pyarrow as pa
from datafusion import functions as f
from numpy.typing import NDArray

from fabric._cython.kernels.hash import hash_columns
from fabric._cython.kernels.segments import N_REGISTERS, merge_registers, register_codes
from fabric.operators.fragment.aggregates.parts import (
    I64,
    Bound,
    Build,
    Form,
    Found,
    Part,
    function,
)
from fabric.operators.fragment.aggregates.segments import (
    Ints,
    lists_of,
    reduced,
    segments,
    without_nulls,
)
from fabric.operators.fragment.floats import normalised
from fabric.plan.schema import type_of


def rows_of(bound: Bound) -> Part:
    """The part that counts rows."""
    return Part("count", datafusion.lit(1), I64, f.count, "rows")


def count_of(_: Bound, found: Found) -> datafusion.Expr:
    """The count; 0 where no state came."""
    return f.coalesce(found["count"], datafusion.lit(0))


def count_states(bound: Bound, found: Found) -> Mapping[str, datafusion.Expr]:
    """The count as a state."""
    return {"count": count_of(bound, found)}


def _count(bound: Bound) -> list[Part]:
    if bound.agg.input is None:
        return [rows_of(bound)]
    has = type_of(bound.agg.input, bound.source.schema)
    return [bound.part("count", f.count, dtype=has)]


def _count_if(bound: Bound) -> list[Part]:
    condition = bound.value().cast(pa.bool_())
    value = f.when(condition, datafusion.lit(1)).otherwise(datafusion.lit(pa.scalar(None, I64)))
    return [bound.part("count", f.count, dtype=I64, value=value, tag="if")]


def _count_distinct(bound: Bound) -> list[Part]:
    value = normalised(bound.value(), bound.type())
    return [bound.part("count", distinct, value=value, tag="same")]


def distinct(value: datafusion.Expr) -> datafusion.Expr:
    """With a filter that changes nothing: without one DataFusion takes a constant's distinct count
    from statistics, which say 1 for null and for no rows."""
    return f.count(value, distinct=True, filter=value.is_not_null())


def _merged_counts(bound: Bound) -> list[Part]:
    return [bound.merging("count", f.sum)]


def _logic(kind: str, build: Build) -> Form:
    return Form(
        rows=lambda bound: [bound.part(kind, build, dtype=pa.bool_())],
        merged=lambda bound: [bound.merging(kind, build)],
        states=lambda _, found: {kind: found[kind]},
        result=lambda _, found: found[kind],
    )


_CODES = pa.list_(pa.int32())
_ALPHA = 0.7213 / (1 + 1.079 / N_REGISTERS)


def _registers_of(values: pa.Array) -> pa.Array:
    """The register that each value would raise; null for null."""
    codes = register_codes(hash_columns([values]))
    return pa.array(codes, mask=~values.is_valid().to_numpy(zero_copy_only=False))


def _register_rows(bound: Bound) -> list[Part]:
    codes = function(_registers_of, [bound.type()], pa.int32(), bound.value().cast(bound.type()))
    return [bound.part("codes", f.array_agg, dtype=pa.int32(), value=codes, tag="codes")]


def _merged_registers(lists: pa.Array) -> tuple[NDArray[np.int32], Ints]:
    """The registers of each group, from its codes or from the lists of codes of its states."""
    values, offsets = segments(lists)
    if pa.types.is_list(values.type):
        values, inner = segments(values)
        offsets = inner[offsets]
    values, offsets = without_nulls(values, offsets)
    return merge_registers(values.to_numpy(zero_copy_only=False), offsets)


def _sent(lists: pa.Array) -> pa.Array:
    codes, offsets = _merged_registers(lists)
    return lists_of(pa.array(codes), offsets, _CODES)


def estimated(lists: pa.Array) -> pa.Array:
    """How many values raised these registers: linear counting where many are empty."""
    codes, offsets = _merged_registers(lists)
    empty = N_REGISTERS - np.diff(offsets)
    weight = reduced(np.add, np.ldexp(1.0, -(codes & 0xFF)), offsets)
    raw = _ALPHA * N_REGISTERS**2 / (weight + empty)
    linear = N_REGISTERS * np.log(N_REGISTERS / np.maximum(empty, 1))
    small = (raw <= 2.5 * N_REGISTERS) & (empty > 0)
    return pa.array(np.rint(np.where(small, linear, raw)).astype(np.int64))


def _register_states(_: Bound, found: Found) -> Mapping[str, datafusion.Expr]:
    return {"codes": function(_sent, [found.type("codes")], _CODES, found["codes"])}


def _register_result(_: Bound, found: Found) -> datafusion.Expr:
    return function(estimated, [found.type("codes")], I64, found["codes"])


FORMS = {
    "count": Form(_count, count_of, _merged_counts, count_states),
    "count_if": Form(_count_if, count_of, _merged_counts, count_states),
    "count_distinct": Form(_count_distinct, count_of),
    "approx_distinct": Form(
        _register_rows,
        _register_result,
        lambda bound: [bound.merging("codes", f.array_agg)],
        _register_states,
    ),
    "bool_and": _logic("all", f.bool_and),
    "bool_or": _logic("any", f.bool_or),
}
