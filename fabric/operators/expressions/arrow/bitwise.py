"""Bits of integers, as Java has them.

One job: shifts and bit_count; the others Arrow has by name. A shift counts the lower
5 bits of its second argument for int32 and 6 for int64, so that no shift is too far.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Request,
    as_array,
)
from fabric.operators.expressions.arrow.buffers import from_numpy, to_numpy

_UNSIGNED = {pa.int32(): np.uint32, pa.int64(): np.uint64}


def _shift(request: Request) -> Bound:
    dtype = request.result

    def kernel(value: Datum, distance: Datum) -> pa.Array:
        n_rows = next(len(v) for v in (value, distance) if isinstance(v, pa.Array))
        both = as_array(value, n_rows), as_array(distance, n_rows)
        bits, places = (to_numpy(pc.fill_null(side, 0)) for side in both)
        if request.name == "shift_right_unsigned":
            bits = bits.view(_UNSIGNED[dtype])
        places = (places & (dtype.bit_width - 1)).astype(bits.dtype)
        shifted = bits << places if request.name == "shift_left" else bits >> places
        return from_numpy(shifted.view(np.int64 if dtype.bit_width == 64 else np.int32), dtype,
                          pc.and_(*map(pc.is_valid, both)))  # fmt: skip

    return Bound(kernel)


def _bit_count(_: Request) -> Bound:
    def kernel(value: pa.Array) -> pa.Array:
        bits = to_numpy(pc.fill_null(value, 0)).view(np.uint8).reshape(-1, 8)
        counts = np.unpackbits(bits, axis=1).sum(axis=1)
        return from_numpy(counts, pa.int32(), pc.is_valid(value))

    return Bound(kernel, array=0)


IMPLEMENTATIONS: dict[str, Implementation] = {
    **dict.fromkeys(("shift_left", "shift_right", "shift_right_unsigned"), _shift),
    "bit_count": _bit_count,
}
