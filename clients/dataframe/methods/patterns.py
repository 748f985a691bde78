"""Patterns in the ``.str`` namespace: regular expressions and LIKE.

One job: the functions of `fabric.plan.functions.regex` as methods. Patterns are constants, and what
not all engines read alike is refused by name; ``$`` is the very end of the text. Methods with names
of Polars mean what Polars says: words, digits and case are Unicode's, `replace` takes the first
match, `extract` gives null where nothing matches. `rlike` and ``regexp_…`` mean what Spark says.
"""

from __future__ import annotations

import re
from typing import Generic

from fabric.clients.dataframe.expressions.operators import E, IntoText
from fabric.clients.dataframe.expressions.types import call, call_of, case
from fabric.errors import PlanError
from fabric.plan.patterns.charset import escaped

_REST = (1 << 31) - 1
_SIGNS = re.compile(r"[\\.+*?()|\[\]{}^$]")


class PatternMethods(Generic[E]):
    """Regular expressions and LIKE; null stays null."""

    __slots__ = ("_expr",)

    def __init__(self, expr: E) -> None:
        self._expr = expr

    # ---- Polars' names
    def contains(self, pattern: IntoText, *, literal: bool = False, strict: bool = True) -> E:
        """True where the pattern matches somewhere, or with `literal` a text or column occurs.

        A pattern that is none is always an error, `strict` or not.

        >>> from fabric import col
        >>> col("tail").str.contains("^N[0-9]"), col("tail").str.contains("N.", literal=True)
        (col("tail").str.contains("^N[0-9]"), col("tail").str.contains("N.", literal=True))
        """
        if literal or _is_plain(pattern):
            return call("contains", self._expr, pattern)
        return call("pattern_contains", self._expr, pattern)

    def replace(
        self, pattern: IntoText, value: IntoText, *, literal: bool = False, n: int = 1
    ) -> E:
        """The first match replaced; ``$1`` in `value` is the first group, unless `literal`.

        >>> from fabric import col
        >>> col("name").str.replace("(.*), (.*)", "$2 $1")
        col("name").str.replace("(.*), (.*)", "$2 $1")
        """
        if n == -1:
            return self.replace_all(pattern, value, literal=literal)
        if n != 1:
            raise PlanError(f"replace takes the first match, got n={n!r}; write: .replace_all(...)")
        if not literal:
            return call("pattern_replace", self._expr, pattern, value)
        if isinstance(pattern, str) and isinstance(value, str):
            plain, new = _escaped(pattern), value.replace("$", "$$")
            return call("pattern_replace", self._expr, plain, new)
        return self._first_replaced(pattern, value)

    def _first_replaced(self, old: IntoText, new: IntoText) -> E:
        """Of columns, by where `old` is; a null in place of `new` replaces nothing."""
        text, place = self._expr, call("instr", self._expr, old)
        before = call("substring", text, 1, place - 1)
        after = call("substring", text, place + call_of(text, "length", old), _REST)
        whole = call("coalesce", call("concat", before, new, after), text)
        return case(place > 0, whole, text)

    def replace_all(self, pattern: IntoText, value: IntoText, *, literal: bool = False) -> E:
        """Every match replaced; ``$1`` in `value` is the first group, unless `literal`.

        >>> from fabric import col
        >>> col("code").str.replace_all("[0-9]", "#")
        col("code").str.replace_all("[0-9]", "#")
        """
        if literal and isinstance(pattern, str) and pattern == "":
            return self._between_all(value)
        plain = _is_plain(pattern) and isinstance(value, str) and "$" not in value
        if plain or (literal and isinstance(pattern, str) and isinstance(value, str)):
            return call("replace", self._expr, pattern, value)
        if literal:  # a null in place of the new text replaces nothing
            return call("coalesce", call("replace", self._expr, pattern, value), self._expr)
        return call("pattern_replace_all", self._expr, pattern, value)

    def _between_all(self, value: IntoText) -> E:
        """`value` before, behind and between all characters."""
        if not isinstance(value, str):
            raise PlanError(f"replace_all puts a text between all characters, got {value!r}")
        new = value.replace("$", "$$")
        behind_each = call("pattern_replace_all", self._expr, "(?s).", f"$0{new}")
        return call_of(self._expr, "concat", value, behind_each)

    def extract(self, pattern: str, group_index: int = 1) -> E:
        """Group `group_index` (0: all) of the first match; null where nothing matches.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": ["a12", "b"]}).select(col("x").str.extract("([0-9]+)")).to_dicts()
        [{'x': '12'}, {'x': None}]
        """
        return call("pattern_extract", self._expr, pattern, group_index)

    def extract_all(self, pattern: str) -> E:
        """Every match, as a list; empty where nothing matches.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": ["a1b22", "c"]}).select(col("x").str.extract_all("[0-9]+")).to_dicts()
        [{'x': ['1', '22']}, {'x': []}]
        """
        return call("pattern_extract_all", self._expr, pattern)

    def count_matches(self, pattern: str, *, literal: bool = False) -> E:
        """How often a pattern matches, or with `literal` a plain text occurs.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": ["a1b22"]}).select(col("x").str.count_matches("[0-9]")).to_dicts()
        [{'x': 3}]
        """
        text = _escaped(pattern) if literal else pattern
        return call("pattern_count", self._expr, text)

    def find(self, pattern: IntoText, *, literal: bool = False, strict: bool = True) -> E:
        """Where a pattern first matches, in bytes from 0 as in Polars; null where it does not.

        With `literal` a plain text or a column; `instr` counts characters from 1 as in SQL.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": ["é1", "a"]}).select(col("x").str.find("[0-9]")).to_dicts()
        [{'x': 2}, {'x': None}]
        """
        if literal or _is_plain(pattern):
            place = call("instr", self._expr, pattern)
            before = call("substring", self._expr, 1, place - 1)
            return case(place > 0, call("length", before.cast("binary")))
        before = call("pattern_extract", self._expr, f"^((?s:.)*?)(?:{pattern})", 1)
        return call("length", before.cast("binary"))

    # ---- Spark's names
    def rlike(self, pattern: str) -> E:
        """True where the regular expression matches somewhere.

        >>> from fabric import col
        >>> col("tail").str.rlike("^N[0-9]+$")
        col("tail").str.rlike("^N[0-9]+$")
        """
        return call("regexp_contains", self._expr, pattern)

    def like(self, pattern: str) -> E:
        """True where the whole string is like `pattern`: % any text, _ any character.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": ["abcd", "xabc"]}).select(col("x").str.like("a_c%")).to_dicts()
        [{'x': True}, {'x': False}]
        """
        return call("like", self._expr, pattern)

    def ilike(self, pattern: str) -> E:
        """As `like`, of string and pattern in lower case.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": ["Éa"]}).select(col("x").str.ilike("é%")).to_dicts()
        [{'x': True}]
        """
        return call("ilike", self._expr, pattern)

    def regexp_extract(self, pattern: str, idx: int = 1) -> E:
        """Group `idx` (0: all) of the first match; empty, as in Spark, where nothing matches.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": ["a12", "b"]})
        >>> df.select(col("x").str.regexp_extract("([0-9]+)")).to_dicts()
        [{'x': '12'}, {'x': ''}]
        """
        return call("regexp_extract", self._expr, pattern, idx)

    def regexp_extract_all(self, pattern: str, idx: int = 1) -> E:
        """Group `idx` (0: all) of every match, as a list.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": ["a1b22"]})
        >>> df.select(col("x").str.regexp_extract_all("([a-z])[0-9]+")).to_dicts()
        [{'x': ['a', 'b']}]
        """
        return call("regexp_extract_all", self._expr, pattern, idx)

    def regexp_replace(self, pattern: str, replacement: str) -> E:
        """Every match replaced; ``$1`` in `replacement` is the first group.

        >>> from fabric import col
        >>> col("name").str.regexp_replace("(.*), (.*)", "$2 $1")
        col("name").str.regexp_replace("(.*), (.*)", "$2 $1")
        """
        return call("regexp_replace", self._expr, pattern, replacement)

    def regexp_count(self, pattern: str) -> E:
        """How often the regular expression matches; 0 where it does not.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": ["a1b22"]}).select(col("x").str.regexp_count("[0-9]+")).to_dicts()
        [{'x': 2}]
        """
        return call("regexp_count", self._expr, pattern)


def _is_plain(pattern: IntoText) -> bool:
    """Whether a pattern matches itself alone."""
    return isinstance(pattern, str) and pattern != "" and not _SIGNS.search(pattern)


def _escaped(text: str) -> str:
    """The pattern that matches `text` alone."""
    return "".join(map(escaped, text))
