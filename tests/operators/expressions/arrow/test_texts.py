"""Rarer functions of strings, beside slow definitions."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fabric.operators.expressions.arrow.regex import every_second
from fabric.operators.expressions.arrow.texts import levenshtein, lpad, rpad, split, split_part

TEXTS = st.text("ab,é😀", max_size=6)


@given(a=TEXTS, b=TEXTS)
def test_levenshtein_as_defined(a: str, b: str) -> None:
    @cache
    def distance(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        same = distance(i - 1, j - 1) + (a[i - 1] != b[j - 1])
        return min(same, distance(i - 1, j) + 1, distance(i, j - 1) + 1)

    assert levenshtein(a, b) == distance(len(a), len(b))


@given(text=TEXTS, n=st.integers(-3, 12), fill=st.text("xy", max_size=3))
def test_padding(text: str, n: int, fill: str) -> None:
    left, right = lpad(text, n, fill), rpad(text, n, fill)
    if n <= len(text) or not fill:
        assert left == right == text[: max(n, 0)]
    else:
        assert len(left) == len(right) == n
        assert left.endswith(text)
        assert right.startswith(text)
        assert set(left[: n - len(text)]) | set(right[len(text) :]) <= set(fill)


@given(text=TEXTS, by=st.sampled_from(["", ",", "a", "ab"]), limit=st.integers(-2, 4))
def test_split_loses_nothing(text: str, by: str, limit: int) -> None:
    parts = split(text, by, limit)
    assert by.join(parts) == text
    assert parts
    if limit > 0:
        assert len(parts) <= limit


@given(text=TEXTS, by=st.sampled_from([",", "a", "ab"]), n=st.integers(1, 5))
def test_split_part_is_one_of_split(text: str, by: str, n: int) -> None:
    parts = split(text, by)
    assert split_part(text, by, n) == (parts[n - 1] if n <= len(parts) else "")
    assert split_part(text, by, -n) == (parts[-n] if n <= len(parts) else "")


@given(
    lists=st.lists(
        st.none() | st.integers(0, 4).map(lambda n: [f"{i}" for i in range(2 * n + 1)]), max_size=6
    )
)
def test_every_second(lists: list[list[str] | None]) -> None:
    found = every_second(pa.array(lists, pa.list_(pa.string())))
    assert found.to_pylist() == [None if one is None else one[1::2] for one in lists]
