"""Look-ups among sorted rows beside a scan of all of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.lookup import add_to_filter, in_blocks, in_filter, positions

HASH = st.one_of(st.integers(0, 6), st.integers(2**64 - 3, 2**64 - 1))
TIME = st.one_of(st.integers(-2, 2), st.sampled_from([-(2**63), 2**63 - 1]))
PLACES = st.lists(st.tuples(HASH, TIME), max_size=30)


def columns(places: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.array([hashed for hashed, _ in places], np.uint64),
        np.array([time for _, time in places], np.int64),
    )


GONE = st.tuples(st.sets(st.integers(0, 29)), st.integers(0, 20))


@given(PLACES, PLACES, st.booleans(), TIME, GONE)
def test_positions_are_those_of_a_scan(
    rows: list[tuple[int, int]],
    keys: list[tuple[int, int]],
    timed: bool,
    since: int,
    gone_from: tuple[set[int], int],
) -> None:
    gone, begin = gone_from
    rows, keys = sorted(rows), sorted(keys)
    marks = np.zeros(8 * ((begin + len(rows) + 7) // 8), np.bool_)
    marks[[begin + i for i in gone if i < len(rows)]] = True
    bits = np.packbits(marks, bitorder="little")
    hashes, times = columns(keys)
    found = positions(*columns(rows), hashes, times if timed else None, since, bits, begin)
    wanted = set(keys) if timed else {hashed for hashed, _ in keys}
    assert found.tolist() == [
        i
        for i, row in enumerate(rows)
        if (row if timed else row[0]) in wanted and row[1] >= since and i not in gone
    ]


@given(st.lists(HASH), st.lists(HASH), st.integers(1, 9))
def test_a_filter_denies_nothing_that_was_added(
    first: list[int], second: list[int], n_bytes: int
) -> None:
    bits = np.zeros(n_bytes, np.uint8)
    added = np.array(first, np.uint64), np.array(second, np.uint64)
    for hashes in added:
        add_to_filter(bits, hashes)
    assert all(in_filter(bits, hashes).all() for hashes in added)


def test_a_filter_denies_most_of_what_was_not_added() -> None:
    hashes = np.random.default_rng(3).integers(0, 2**64, 20_000, np.uint64)
    bits = np.zeros(10_000 * 12 // 8, np.uint8)
    add_to_filter(bits, hashes[:10_000])
    assert in_filter(bits, hashes[:10_000]).all()
    assert 0 < in_filter(bits, hashes[10_000:]).mean() < 0.02


@given(st.lists(st.lists(HASH, min_size=1), max_size=5), st.lists(HASH))
def test_blocks_have_what_is_in_them(parts: list[list[int]], asked: list[int]) -> None:
    ordered = iter(sorted(each for part in parts for each in part))
    blocks = [np.array([next(ordered) for _ in part], np.uint64) for part in parts]
    filters = [np.zeros(2 * len(block), np.uint8) for block in blocks]
    for bits, block in zip(filters, blocks, strict=True):
        add_to_filter(bits, block)
    firsts = np.array([block[0] for block in blocks], np.uint64)
    lasts = np.array([block[-1] for block in blocks], np.uint64)
    ends = np.cumsum([len(bits) for bits in filters]).astype(np.int64)
    hashes = np.array(asked, np.uint64)
    flat = np.concatenate([np.zeros(0, np.uint8), *filters])
    found = in_blocks(hashes, firsts, lasts, flat, ends)
    for hashed, may_have in zip(hashes, found.tolist(), strict=True):
        holders = [i for i, block in enumerate(blocks) if block[0] <= hashed <= block[-1]]
        assert may_have == bool(
            holders and in_filter(filters[holders[0]], np.array([hashed], np.uint64))[0]
        )
        assert may_have or not any(hashed in block for block in blocks)


def test_all_sorted_pairs_are_strictly_found_once() -> None:
    rows = sorted({(h, t) for h in range(40) for t in range(h % 5)})
    hashes, times = columns(rows)
    doubled = np.repeat(hashes, 2), np.repeat(times, 2)
    found = positions(hashes, times, *doubled)
    assert found.tolist() == list(range(len(rows)))
    assert all(a < b for a, b in pairwise(found.tolist()))


NOTHING = np.zeros(0, np.uint64), np.zeros(0, np.int64)
ONE = np.ones(1, np.uint64), np.ones(1, np.int64)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: positions(ONE[0], NOTHING[1], ONE[0]), "1 rows need as many times, got 0"),
        (lambda: positions(*ONE, ONE[0], NOTHING[1]), "1 hashes need as many times, got 0"),
        (
            lambda: positions(*ONE, ONE[0], None, 0, np.zeros(1, np.uint8), 8),
            "rows 8 to 9 need as many bits, got 8",
        ),
        (
            lambda: positions(*ONE, ONE[0], None, 0, np.zeros(1, np.uint8), -1),
            "rows -1 to 0 need as many bits, got 8",
        ),
        (lambda: add_to_filter(np.zeros(0, np.uint8), ONE[0]), "at least one byte"),
        (lambda: in_filter(np.zeros(0, np.uint8), ONE[0]), "at least one byte"),
        (
            lambda: in_blocks(ONE[0], NOTHING[0], ONE[0], np.zeros(1, np.uint8), ONE[1]),
            "1 blocks need as many first hashes and filters, got 0 and 1",
        ),
        (
            lambda: in_blocks(ONE[0], ONE[0], ONE[0], np.zeros(1, np.uint8), 2 * ONE[1]),
            "the filter of block 0 leaves the 1 bytes",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=message):
        call()
