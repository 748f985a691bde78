"""Decimals as digits of base 10,000, as PostgreSQL's numeric has them.

One job: `limbs_of`, `multiply` and `divided`. A value is 32-bit limbs, the lowest first, of which
divisions by 10,000 give the digits; a short one is a single limb of 64 bits.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bits = npt.NDArray[np.bool_]
_LIMB_BITS, _NBASE = 32, 10_000
SHORT_DIGITS = 18
"""As many decimal digits fit into 64 bits."""


def valid_of(column: pa.Array) -> Bits | None:
    """Which values are there; None where all are."""
    if not column.null_count:
        return None
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))


def short_limb(column: pa.Array) -> tuple[Bits, list[npt.NDArray[np.uint64]]]:
    """As `limbs_of`, in a single limb: the lowest eight bytes hold the value."""
    raw = np.frombuffer(column.buffers()[1], "<i8").reshape(-1, column.type.byte_width // 8)
    raw = raw[column.offset : column.offset + len(column), 0]
    valid = valid_of(column)
    values = raw if valid is None else np.where(valid, raw, 0)
    return values < 0, [np.abs(values).view(np.uint64)]


def limbs_of(column: pa.Array, n_digits: int) -> tuple[Bits, list[npt.NDArray[np.uint64]]]:
    """The signs, and the values without them as 32-bit limbs, the lowest first, with room for
    `n_digits` decimal digits."""
    n_bytes = column.type.byte_width
    raw = np.frombuffer(column.buffers()[1], "<u4")
    raw = raw.reshape(-1, n_bytes // 4)[column.offset : column.offset + len(column)]
    valid = valid_of(column)
    if valid is not None:
        raw = np.where(valid[:, None], raw, 0)
    negative = (raw[:, -1] >> 31).astype(bool)
    n_limbs = max(1, math.ceil(n_digits * math.log2(10) / _LIMB_BITS))
    limbs, carry = [], negative.astype(np.uint64)
    mask = np.where(negative, np.uint64(2**32 - 1), np.uint64(0))
    for i in range(max(n_limbs, raw.shape[1])):
        word = raw[:, i].astype(np.uint64) if i < raw.shape[1] else mask
        word = (word ^ mask) + carry
        limbs.append(word & np.uint64(2**32 - 1))
        carry = word >> np.uint64(32)
    return negative, limbs[:n_limbs]


def multiply(limbs: list[npt.NDArray[np.uint64]], factor: int) -> None:
    """Multiply the value in place."""
    while factor > 1:
        step = min(factor, 10**9)  # of a power of ten
        if len(limbs) == 1:
            limbs[0] = limbs[0] * np.uint64(step)
            factor //= step
            continue
        carry = np.zeros_like(limbs[0])
        for i, limb in enumerate(limbs):
            product = limb * np.uint64(step) + carry
            limbs[i] = product & np.uint64(2**32 - 1)
            carry = product >> np.uint64(32)
        factor //= step


def divided(limbs: list[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    """The remainder by 10,000; the quotient stays in `limbs`."""
    base = np.uint64(_NBASE)
    if len(limbs) == 1:
        whole, limbs[0] = limbs[0], limbs[0] // base
        return whole - limbs[0] * base
    rest = np.zeros_like(limbs[0])
    for i in range(len(limbs) - 1, -1, -1):
        whole = (rest << np.uint64(32)) | limbs[i]
        limbs[i] = whole // base
        rest = whole - limbs[i] * base
    return rest
