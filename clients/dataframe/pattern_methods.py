"""Patterns in the ``.str`` namespace: regular expressions and LIKE.

One job: the functions of `fabric.plan.functions.regex` as methods. Patterns are constants, of what
Java and RE2 read alike; ``$`` is the very end of the text, words for ``\\b`` are ASCII.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabric.clients.dataframe.expr import call
from fabric.plan.patterns.charset import escaped

if TYPE_CHECKING:
    from fabric.clients.dataframe.expr import Expr


class PatternMethods:
    """Regular expressions and LIKE; null stays null."""

    __slots__ = ()
    _expr: Expr

    def rlike(self, pattern: str) -> Expr:
        """True where the regular expression matches somewhere.

        >>> from fabric import col
        >>> col("tail").str.rlike("^N[0-9]+$")
        col("tail").str.rlike("^N[0-9]+$")
        """
        return call("regexp_contains", self._expr, pattern)

    def like(self, pattern: str) -> Expr:
        """True where the whole string is like `pattern`: % any text, _ any character."""
        return call("like", self._expr, pattern)

    def ilike(self, pattern: str) -> Expr:
        """As `like`, of string and pattern in lower case."""
        return call("ilike", self._expr, pattern)

    def extract(self, pattern: str, group_index: int = 1) -> Expr:
        """Group `group_index` (0: all) of the first match; empty, as in Spark, where is none."""
        return call("regexp_extract", self._expr, pattern, group_index)

    def extract_all(self, pattern: str, group_index: int = 0) -> Expr:
        """Group `group_index` (0: all) of every match, as a list."""
        return call("regexp_extract_all", self._expr, pattern, group_index)

    def regexp_replace(self, pattern: str, replacement: str) -> Expr:
        """Every match replaced; ``$1`` in `replacement` is the first group.

        >>> from fabric import col
        >>> col("name").str.regexp_replace("(.*), (.*)", "$2 $1")
        col("name").str.regexp_replace("(.*), (.*)", "$2 $1")
        """
        return call("regexp_replace", self._expr, pattern, replacement)

    def count_matches(self, pattern: str, *, literal: bool = False) -> Expr:
        """How often a regular expression matches, or with `literal` a plain text occurs."""
        text = "".join(map(escaped, pattern)) if literal else pattern
        return call("regexp_count", self._expr, text)

    regexp_contains = rlike
    regexp_extract = extract
    regexp_extract_all = extract_all
    regexp_count = count_matches
