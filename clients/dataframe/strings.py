"""The ``.str`` namespace: functions of strings, under the names Polars and Spark give them."""

from __future__ import annotations

from typing import Any

from fabric.clients.dataframe.expr import Expr, call
from fabric.errors import PlanError

_REST = (1 << 31) - 1


class StringMethods:
    """What ``col("x").str`` offers; null stays null, characters are Unicode code points.

    Examples
    --------
    >>> from fabric import col
    >>> col("carrier").str.to_uppercase().str.starts_with("A")
    col("carrier").str.upper().str.starts_with("A")
    """

    __slots__ = ("_expr",)

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def upper(self) -> Expr:
        """In upper case."""
        return call("upper", self._expr)

    def lower(self) -> Expr:
        """In lower case."""
        return call("lower", self._expr)

    def length(self) -> Expr:
        """How many characters."""
        return call("length", self._expr)

    def trim(self) -> Expr:
        """Without spaces at both ends."""
        return call("trim", self._expr)

    def ltrim(self) -> Expr:
        """Without spaces at the beginning."""
        return call("ltrim", self._expr)

    def rtrim(self) -> Expr:
        """Without spaces at the end."""
        return call("rtrim", self._expr)

    def substring(self, start: int, length: int = _REST) -> Expr:
        """`length` characters from `start`, counted from 1 as in SQL; below 0 from the end."""
        if length < 0:
            raise PlanError(f"substring needs a length of at least 0, got {length}")
        return call("substring", self._expr, start, length)

    def slice(self, offset: int, length: int | None = None) -> Expr:
        """`length` characters from `offset`, counted from 0 as in Polars; below 0 from the end.

        >>> from fabric import col
        >>> col("time").str.slice(0, 2)
        col("time").str.substring(1, 2)
        """
        start = offset + 1 if offset >= 0 else offset
        return self.substring(start, _REST if length is None else length)

    def contains(self, text: Any) -> Expr:
        """True where `text` occurs; plain text, not a pattern."""
        return call("contains", self._expr, text)

    def starts_with(self, prefix: Any) -> Expr:
        """True where the string begins with `prefix`."""
        return call("starts_with", self._expr, prefix)

    def ends_with(self, suffix: Any) -> Expr:
        """True where the string ends with `suffix`."""
        return call("ends_with", self._expr, suffix)

    def replace(self, old: Any, new: Any) -> Expr:
        """Every `old` replaced by `new`; plain text, not a pattern."""
        return call("replace", self._expr, old, new)

    def concat(self, *others: Any) -> Expr:
        """The string with `others` after it; null when any of them is null."""
        return call("concat", self._expr, *others)

    def to_timestamp(self, format: str | None = None) -> Expr:
        """Parsed as a timestamp; `format` is a Spark pattern such as ``yyyy-MM-dd HH:mm``."""
        return call("to_timestamp", self._expr, *([] if format is None else [format]))

    def to_date(self, format: str | None = None) -> Expr:
        """Parsed as a date: ``yyyy-MM-dd``, or by a Spark pattern such as ``dd/MM/yyyy``."""
        return self._expr.cast("date") if format is None else call("to_date", self._expr, format)

    to_uppercase = upper
    to_lowercase = lower
    len_chars = length
    strip = trim
    strip_chars = trim
    strip_chars_start = ltrim
    strip_chars_end = rtrim
    substr = substring
    startswith = starts_with
    endswith = ends_with
    replace_all = replace
    to_datetime = to_timestamp
