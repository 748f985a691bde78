"""Replacements: groups, escapes, and what is refused."""

from __future__ import annotations

import pytest

from fabric.plan.patterns.regex import PatternFault
from fabric.plan.patterns.regex import parse as regex
from fabric.plan.patterns.replacement import parse


@pytest.mark.parametrize(
    ("text", "re2", "java"),
    [
        ("x", "x", "x"),
        ("$0", r"\0", "$0"),
        ("<$2$1>", r"<\2\1>", "<$2$1>"),
        ("$15", r"\15", r"$1\5"),
        ("${2}0", r"\20", r"$2\0"),
        ("${name}", r"\1", "$1"),
        (r"\$1\\", r"$1\\", r"\$1\\"),
        (r"\a", "a", "a"),
    ],
)
def test_both_spellings(text: str, re2: str, java: str) -> None:
    found = parse(text, regex("(?<name>a)(b)"))
    assert (found.re2(), found.java()) == (re2, java)


@pytest.mark.parametrize(
    ("text", "what"),
    [("$3", "group 3 of 2"), ("$", "a $ alone"), ("a\\", "a \\ alone"), ("$x", "a $ alone"),
     ("${x}", "group 'x', which"), ("${7}", "group 7 of 2")],
)  # fmt: skip
def test_refused(text: str, what: str) -> None:
    with pytest.raises(PatternFault) as fault:
        parse(text, regex("(a)(b)"))
    assert what in str(fault.value)


def test_ten_groups_are_too_many() -> None:
    with pytest.raises(PatternFault, match="at most 9"):
        parse("$10", regex("(a)" * 10))
