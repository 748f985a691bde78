"""HyperLogLog registers beside a dictionary."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.registers import N_REGISTERS, merge_registers, register_codes

HASHES = st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=30), max_size=8)


def code(value: int) -> int:
    rest = value // N_REGISTERS
    return (value % N_REGISTERS) << 8 | (53 - rest.bit_length() + 1)


@given(HASHES)
def test_each_segment_keeps_the_longest_run_of_each_register(segments: list[list[int]]) -> None:
    flat = np.array([value for segment in segments for value in segment], np.uint64)
    codes = register_codes(flat)
    assert codes.tolist() == [code(int(value)) for value in flat]
    offsets = np.cumsum([0, *map(len, segments)]).astype(np.int64)
    merged, bounds = merge_registers(codes, offsets)
    for segment, (begin, end) in zip(segments, pairwise(bounds), strict=True):
        longest: dict[int, int] = {}
        for one in map(code, segment):
            longest[one >> 8] = max(longest.get(one >> 8, 0), one & 0xFF)
        want = sorted(index << 8 | run for index, run in longest.items())
        assert sorted(merged[begin:end].tolist()) == want
    again, _ = merge_registers(merged, bounds)
    assert sorted(again.tolist()) == sorted(merged.tolist())


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="there are 1 values"):
        merge_registers(np.ones(1, np.int32), np.array([0, 2]))
