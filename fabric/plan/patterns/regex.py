"""Regular expressions: the common part of Java's and RE2's, in a form both read alike.

One job: `parse`, and `check_like` for patterns of LIKE; the reading is in `parser.py`. Classes are
written out (`charset.py`), flags are resolved, names of groups are numbers; what one engine lacks
or means otherwise is refused by name. Two signs mean the same everywhere because we say what: ``$``
is the very end of the text (never before a last line end), and a word, for ``\\b``, is of ASCII
letters, digits and ``_`` (Java 17 would count all letters).

Methods with Polars' names read patterns as Rust does (``rust=True``): ``\\w``, ``\\d``, ``\\s``,
``\\b`` and the case that ``(?i)`` ignores are Unicode's, ``.`` is all but ``\\n``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa

from fabric.plan.patterns.parser import Parser
from fabric.plan.patterns.parts import Edge, PatternFault, Regex

__all__ = ["PatternFault", "Regex", "parse"]


@lru_cache(maxsize=256)
def parse(pattern: str, *, rust: bool = False) -> Regex:
    """The normal form of a pattern; `rust` reads it as Rust and Polars do, not as Java and Spark.

    Raises
    ------
    PatternFault
        If it is no regular expression, or has something that an engine lacks or reads otherwise.

    Examples
    --------
    >>> parse(r"(?i)a\\d+$").java()
    '[Aa][0-9]+\\\\z'
    >>> parse("(?=a)")
    Traceback (most recent call last):
    fabric.plan.patterns.parts.PatternFault: look-ahead (?= at character 1
    """
    import pyarrow.compute as pc  # late: `import fabric` needs no kernels

    parser = Parser(pattern if rust else _unquoted(pattern), rust=rust)
    empty = parser.alternation()
    if parser.at < len(parser.text):
        raise parser.fault("an unmatched )")
    found = Regex(tuple(parser.parts), parser.n_groups, empty, parser.names)
    if any(isinstance(part, Edge) and part.is_unicode for part in found.parts):
        return replace(found, is_re2=False)
    try:
        pc.match_substring_regex(pa.array([""]), pattern=found.re2())
    except pa.ArrowInvalid as error:
        if rust:  # sets of Unicode are large
            return replace(found, is_re2=False)
        raise PatternFault("more repetitions than RE2 takes") from error
    return found


def _unquoted(pattern: str) -> str:
    r"""``\Q...\E`` as single characters."""

    def plain(found: re.Match[str]) -> str:
        if found["quoted"] is None:
            return found[0]
        return "".join(c if c.isalnum() else f"\\{c}" for c in found["quoted"])

    return re.sub(r"\\Q(?P<quoted>.*?)(?:\\E|\Z)|\\.", plain, pattern, flags=re.S)


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
