"""About how many different values.

One job: the form of approx_distinct: HyperLogLog with 2,048 registers (2.3 % off on average), kept
sparse, so that small groups stay small. Hashes are those of the exchange: every type has them, and
all NaNs and both zeros are one value.
"""

from __future__ import annotations

from collections.abc import Mapping

import datafusion
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels.hash import hash_columns
from fabric._cython.kernels.registers import N_REGISTERS, merge_registers, register_codes
from fabric.operators.fragment.aggregates.parts import I64, Bound, Form, Found, Part, function
from fabric.operators.fragment.aggregates.segments import (
    Ints,
    collected,
    lists_of,
    reduced,
    segments,
    without_nulls,
)

_CODES = pa.list_(pa.int32())
_ALPHA = 0.7213 / (1 + 1.079 / N_REGISTERS)


def _codes(values: pa.Array) -> pa.Array:
    """The register that each value would raise; null for null."""
    codes = register_codes(hash_columns([values]))
    return pa.array(codes, mask=~values.is_valid().to_numpy(zero_copy_only=False))


def _rows(bound: Bound) -> list[Part]:
    codes = function(_codes, [bound.type()], pa.int32(), bound.value().cast(bound.type()))
    return [bound.part("codes", collected, dtype=pa.int32(), value=codes, tag="codes")]


def _merged_codes(lists: pa.Array) -> tuple[NDArray[np.int32], Ints]:
    """The registers of each group, from its codes or from the lists of codes of its states."""
    values, offsets = segments(lists)
    if pa.types.is_list(values.type):
        values, inner = segments(values)
        offsets = inner[offsets]
    values, offsets = without_nulls(values, offsets)
    return merge_registers(values.to_numpy(zero_copy_only=False), offsets)


def _sent(lists: pa.Array) -> pa.Array:
    codes, offsets = _merged_codes(lists)
    return lists_of(pa.array(codes), offsets, _CODES)


def estimated(lists: pa.Array) -> pa.Array:
    """How many values raised these registers: linear counting where many are empty."""
    codes, offsets = _merged_codes(lists)
    empty = N_REGISTERS - np.diff(offsets)
    weight = reduced(np.add, np.ldexp(1.0, -(codes & 0xFF)), offsets)
    raw = _ALPHA * N_REGISTERS**2 / (weight + empty)
    linear = N_REGISTERS * np.log(N_REGISTERS / np.maximum(empty, 1))
    small = (raw <= 2.5 * N_REGISTERS) & (empty > 0)
    return pa.array(np.rint(np.where(small, linear, raw)).astype(np.int64))


def _states(_: Bound, found: Found) -> Mapping[str, datafusion.Expr]:
    return {"codes": function(_sent, [found.type("codes")], _CODES, found["codes"])}


def _result(_: Bound, found: Found) -> datafusion.Expr:
    return function(estimated, [found.type("codes")], I64, found["codes"])


FORMS = {
    "approx_distinct": Form(
        _rows, _result, lambda bound: [bound.merging("codes", collected)], _states
    )
}
