"""Sets of characters beside Python's own answers about each character."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.plan.patterns import charset

SETS = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 60)).map(lambda p: (p[0], p[0] + p[1])),
    max_size=5,
)


def members(ranges: charset.Ranges, last: int = 300) -> set[int]:
    return {code for low, high in ranges for code in range(low, min(high, last) + 1)}


@given(parts=SETS)
def test_union_and_complement(parts: list[tuple[int, int]]) -> None:
    union = charset.ranges(*parts)
    assert members(union) == {code for low, high in parts for code in range(low, high + 1)}
    assert members(charset.complement(union)) == set(range(301)) - members(union)
    assert charset.complement(charset.complement(union)) == union


@given(parts=SETS)
def test_text_matches_its_members(parts: list[tuple[int, int]]) -> None:
    union = charset.ranges(*parts)
    if not union:
        return
    pattern = re.compile(charset.text(union))
    assert {code for code in range(301) if pattern.fullmatch(chr(code))} == members(union)


@given(parts=SETS)
def test_folded_has_both_cases_of_ascii(parts: list[tuple[int, int]]) -> None:
    union = members(charset.ranges(*parts))
    letters = {code for code in union if chr(code).isascii() and chr(code).isalpha()}
    both = union | {ord(chr(code).swapcase()) for code in letters}
    assert members(charset.folded(charset.ranges(*parts))) == both


@pytest.mark.parametrize("name", ["L", "Lu", "Nd", "P", "Zs", "Sm"])
def test_categories(name: str) -> None:
    found = charset.named(name)
    assert found is not None
    expected = {c for c in range(0x3000) if unicodedata.category(chr(c)).startswith(name)}
    assert members(found, 0x2FFF) == expected


@pytest.mark.parametrize("name", ["", "X", "Lx", "Greek", "IsAlphabetic", "Cn", "C"])
def test_unknown_names(name: str) -> None:
    assert charset.named(name) is None
