"""Patterns of ``LIKE``: ``%`` is any text, ``_`` any one character, a backslash makes them plain.

One job: `check_like`.
"""

from __future__ import annotations

import re

from fabric.plan.patterns.regex import PatternFault


def check_like(pattern: str) -> None:
    r"""Raise `PatternFault` if a backslash stands before anything but ``%``, ``_`` or itself.

    >>> check_like(r"100\%")
    >>> check_like(r"a\b")
    Traceback (most recent call last):
    fabric.plan.patterns.parts.PatternFault: a \ before 'b'; write \\ for the sign itself
    """
    rest = re.sub(r"\\[%_\\]", "", pattern)
    if "\\" in rest:
        at = rest.index("\\") + 1
        what = f"before {rest[at]!r}" if at < len(rest) else "at the end"
        raise PatternFault(f"a \\ {what}; write \\\\ for the sign itself")
