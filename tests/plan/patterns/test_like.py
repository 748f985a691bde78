"""Patterns of LIKE: where a backslash may stand."""

from __future__ import annotations

import pytest

from fabric.plan.patterns.regex import PatternFault, check_like


@pytest.mark.parametrize("pattern", ["", "%", "a_", r"\%", r"\_", r"\\", r"\\\%", "a\n"])
def test_fine(pattern: str) -> None:
    check_like(pattern)


@pytest.mark.parametrize(
    ("pattern", "what"), [("\\", "at the end"), (r"a\b", "before 'b'"), (r"\\\x", "before 'x'")]
)
def test_refused(pattern: str, what: str) -> None:
    with pytest.raises(PatternFault, match=what):
        check_like(pattern)
