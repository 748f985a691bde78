"""Patterns cut into letters and text, and what they can't hold."""

from __future__ import annotations

import pytest

from fabric.plan.faults import ArgumentFault
from fabric.plan.functions.datetime_patterns import check_pattern, tokens


def test_tokens() -> None:
    assert list(tokens("yyyy-MM'T''x'")) == [
        ("letters", "yyyy"), ("sign", "-"), ("letters", "MM"), ("text", "T'x"),
    ]  # fmt: skip


@pytest.mark.parametrize("pattern", ["", "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "'[Y]'", "''"])
def test_patterns(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("YYYY", "knows no 'YYYY'"), ("yyyyyyy", "knows no"), ("aa", "knows no 'aa'"),
     ("w", "knows no 'w'"), ("MMMMM", "knows no"), ("z", "knows no"), ("[yyyy]", "quote '\\['"),
     ("yyyy'", 'quote "\'"')],
)  # fmt: skip
def test_refusals(pattern: str, message: str) -> None:
    with pytest.raises(ArgumentFault, match=message):
        check_pattern(pattern)
