"""The ``.str`` namespace: functions of strings, under the names Polars and Spark give them."""

from __future__ import annotations

import pyarrow as pa

from fabric.clients.dataframe.calls import helpful, part_of, suggesting
from fabric.clients.dataframe.expressions.literal import DTypeLike, to_dtype
from fabric.clients.dataframe.expressions.operators import E, IntoNumber, IntoText, Operators
from fabric.clients.dataframe.expressions.types import (
    Expression,
    IntoExpr,
    call,
    call_of,
    case,
    to_node,
)
from fabric.clients.dataframe.methods.dates import DateTimeMethods
from fabric.clients.dataframe.methods.directives import reading_pattern
from fabric.clients.dataframe.methods.patterns import PatternMethods
from fabric.errors import PlanError
from fabric.plan import expr as plan

_REST = (1 << 31) - 1
_WHITE = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
    "\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""White space as Unicode and Polars have it."""
_ZONE = r":[0-9.]+ ?(?:[A-Za-z][A-Za-z/_]*|[+-][0-9:]+)$"
"""At the end of a time: its zone, or its distance from UTC."""
_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
"""Groups of four, the last one padded, without bits that mean nothing."""


class StringMethods(PatternMethods[E]):
    """What ``col("x").str`` offers; null stays null, characters are Unicode code points.

    Examples
    --------
    >>> from fabric import DataFrame, col
    >>> df, text = DataFrame({"x": ["xy Né"]}), col("x").str
    >>> df.select(a=text.lower(), b=text.reverse(), c=text.initcap(), d=text.right(2)).to_dicts()
    [{'a': 'xy né', 'b': 'éN yx', 'c': 'Xy Né', 'd': 'Né'}]
    >>> df.select(a=text.translate("xyé", "ab"), b=text.strip_chars("yx ")).to_dicts()
    [{'a': 'ab N', 'b': 'Né'}]
    """

    __slots__ = ()

    def upper(self) -> E:
        """The string in upper case by Unicode's rules: ``"ß"`` becomes ``"SS"``."""
        return call("upper", self._expr)

    def lower(self) -> E:
        """The string in lower case by Unicode's rules."""
        return call("lower", self._expr)

    def length(self) -> E:
        """The number of characters, an int32; `len_bytes` counts bytes.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": ["né"]})
        >>> df.select(n=col("x").str.length(), bytes=col("x").str.len_bytes()).to_dicts()
        [{'n': 2, 'bytes': 3}]
        """
        return call("length", self._expr)

    def len_bytes(self) -> E:
        """The number of bytes in UTF-8, an int32; see `length`."""
        return call("length", self._expr.cast("binary"))

    def trim(self, characters: IntoText | None = None) -> E:
        """Without spaces, or any of `characters`, at both ends; `strip_chars` takes tabs too.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [" a b "]}).select(col("x").str.trim()).to_dicts()
        [{'x': 'a b'}]
        """
        return self._trimmed("trim", characters)

    def ltrim(self, characters: IntoText | None = None) -> E:
        """The string without leading spaces, or any of `characters`; by default tabs stay."""
        return self._trimmed("ltrim", characters)

    def rtrim(self, characters: IntoText | None = None) -> E:
        """The string without trailing spaces, or any of `characters`; by default tabs stay."""
        return self._trimmed("rtrim", characters)

    def _trimmed(self, function: str, characters: IntoText | None) -> E:
        return call(function, self._expr, *([] if characters is None else [characters]))

    def strip_chars(self, characters: IntoText | None = None) -> E:
        """The string without white space, or any of `characters` in any order, at both ends."""
        return self.trim(_WHITE if characters is None else characters)

    def strip_chars_start(self, characters: IntoText | None = None) -> E:
        """The string without white space, or any of `characters`, at the beginning."""
        return self.ltrim(_WHITE if characters is None else characters)

    def strip_chars_end(self, characters: IntoText | None = None) -> E:
        """The string without white space, or any of `characters`, at the end."""
        return self.rtrim(_WHITE if characters is None else characters)

    def strip_prefix(self, prefix: IntoText) -> E:
        """The string without one `prefix`, where the string begins with it.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": ["ababc", "c"]}).select(col("x").str.strip_prefix("ab")).to_dicts()
        [{'x': 'abc'}, {'x': 'c'}]
        """
        rest = call("substring", self._expr, _after(prefix), _REST)
        return self._instead(rest, self.starts_with(prefix), prefix)

    def strip_suffix(self, suffix: IntoText) -> E:
        """The string without one `suffix`, where the string ends with it."""
        n_left_out = len(suffix) if isinstance(suffix, str) else call("length", suffix)
        n_kept = self.length() - n_left_out
        return self._instead(self._first(n_kept), self.ends_with(suffix), suffix)

    def _instead(self, part: E, condition: E, of: IntoText) -> E:
        """`part` where the condition is true, else the string; null where `of` is."""
        if isinstance(of, str):
            return case(condition, part, self._expr)
        text, test = to_node(self._expr), to_node(condition)
        branches = (test, to_node(part)), (to_node(~condition), text)
        return condition._of(plan.Case(branches, to_node(None)))

    def _first(self, n_characters: IntoExpr) -> E:
        return call("substring", self._expr, 1, n_characters)

    def substring(self, start: IntoNumber, length: IntoNumber = _REST) -> E:
        """`length` characters from `start`, counted from 1 as in SQL; below 0 from the end.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": ["abcd"]}).select(col("x").str.substring(2, 2)).to_dicts()
        [{'x': 'bc'}]
        """
        if isinstance(length, int) and length < 0:
            raise PlanError(f"substring needs a length of at least 0, got {length}")
        return call("substring", self._expr, start, length)

    def slice(self, offset: IntoNumber, length: IntoNumber | None = None) -> E:
        """`length` characters from `offset`, counted from 0 as in Polars; below 0 from the end.

        >>> from fabric import col
        >>> col("time").str.slice(0, 2)
        col("time").str.substring(1, 2)
        """
        if isinstance(offset, Operators):
            start: IntoNumber = case(offset >= 0, offset + 1, offset)
        else:
            start = offset + 1 if offset >= 0 else offset
        return self.substring(start, _REST if length is None else length)

    def head(self, n: IntoNumber) -> E:
        """The first `n` characters; a negative `n` drops that many from the end. See also `tail`.

        >>> from fabric import DataFrame, col
        >>> x = col("x").str
        >>> DataFrame({"x": ["abcde"]}).select(a=x.head(2), b=x.head(-2), c=x.tail(-2)).to_dicts()
        [{'a': 'ab', 'b': 'abc', 'c': 'cde'}]
        """
        if isinstance(n, Operators):
            return self._first(case(n >= 0, n, self.length() + n))
        return self._first(n if n >= 0 else self.length() + n)

    def tail(self, n: IntoNumber) -> E:
        """The last `n` characters; a negative `n` drops that many from the start; see `head`."""
        if isinstance(n, Operators):
            some = case(n != 0, case(n > 0, -n, 1 - n), 1)
            return self.substring(some, case(n != 0, _REST, n))
        if n == 0:
            return self._first(0)
        return self.substring(-n if n > 0 else 1 - n)

    def left(self, n: IntoNumber) -> E:
        """The first `n` characters, as in SQL; an empty string for an `n` below 1."""
        return self.head(call("greatest", n, 0) if isinstance(n, Operators) else max(n, 0))

    def right(self, n: IntoNumber) -> E:
        """The last `n` characters, as in SQL; an empty string for an `n` below 1."""
        return self.tail(call("greatest", n, 0) if isinstance(n, Operators) else max(n, 0))

    def lpad(self, length: IntoNumber, fill: IntoText = " ") -> E:
        """The string filled up at the start to `length` characters, or cut; `pad_start` never cuts.

        >>> from fabric import DataFrame, col
        >>> x = col("x").str
        >>> DataFrame({"x": ["1234"]}).select(a=x.lpad(3, "0"), b=x.pad_start(3, "0")).to_dicts()
        [{'a': '123', 'b': '1234'}]
        """
        return call("lpad", self._expr, length, fill)

    def rpad(self, length: IntoNumber, fill: IntoText = " ") -> E:
        """The string filled up at the end to `length` characters, or cut; `pad_end` never cuts."""
        return call("rpad", self._expr, length, fill)

    def pad_start(self, length: IntoNumber, fill_char: IntoText = " ") -> E:
        """The string filled up at the start to at least `length` characters; see `lpad`."""
        return self.lpad(self._at_least(length), fill_char)

    def pad_end(self, length: IntoNumber, fill_char: IntoText = " ") -> E:
        """The string filled up at the end to at least `length` characters; `rpad` also cuts."""
        return self.rpad(self._at_least(length), fill_char)

    def _at_least(self, length: IntoNumber) -> E:
        """The length of the string, or `length` if that is more; null where it is null."""
        longest = call("greatest", self.length(), length)
        if isinstance(length, Expression):
            return case(call_of(self._expr, "is_not_null", length), longest)
        return longest

    def zfill(self, length: IntoNumber) -> E:
        """Filled up with zeros to at least `length` characters, after a sign at the beginning.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": ["-7", "12345"]}).select(col("x").str.zfill(4)).to_dicts()
        [{'x': '-007'}, {'x': '12345'}]
        """
        sign, rest = self._first(1), StringMethods(self.substring(2))
        signed = sign.is_in(["-", "+"])
        filled = call("concat", sign, rest.pad_start(length - 1, "0"))
        return case(signed, filled, self.pad_start(length, "0"))

    def repeat(self, n_times: IntoNumber) -> E:
        """The string `n_times` in a row; empty for `n_times` below 1."""
        return call("repeat", self._expr, n_times)

    def reverse(self) -> E:
        """The characters in reverse order; an accent that is its own code point moves too."""
        return call("reverse", self._expr)

    def initcap(self) -> E:
        """Each word, between spaces, with a capital first letter and the rest in lower case."""
        return call("initcap", self._expr)

    def translate(self, old: IntoText, new: IntoText) -> E:
        """Each character of `old` becomes the one at its place in `new`, or is left out."""
        return call("translate", self._expr, old, new)

    def instr(self, text: IntoText) -> E:
        """Where `text` begins, counted from 1 as in SQL; 0 when it does not occur.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": ["abc", "xyz"]}).select(col("x").str.instr("b")).to_dicts()
        [{'x': 2}, {'x': 0}]
        """
        return call("instr", self._expr, text)

    def split(self, by: str, limit: int | None = None) -> E:
        """The parts between every `by` as a list, at most `limit`; plain text, not a pattern.

        With an empty `by`, and no `limit`, all characters.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": ["a,b,c"]}).select(col("x").str.split(",", 2)).to_dicts()
        [{'x': ['a', 'b,c']}]
        """
        if by == "" and limit is None:
            return self.extract_all("(?s).")
        return call("split", self._expr, by, *([] if limit is None else [limit]))

    def split_part(self, by: IntoText, number: IntoNumber) -> E:
        """Part `number` between every `by`, from 1, below 0 from the end; empty when is none.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": ["a,b", "c"]}).select(col("x").str.split_part(",", 2)).to_dicts()
        [{'x': 'b'}, {'x': ''}]
        """
        return call("split_part", self._expr, by, number)

    def levenshtein(self, other: IntoText) -> E:
        """The number of characters to add, drop or change to get the other string, an int32."""
        return call("levenshtein", self._expr, other)

    def soundex(self) -> E:
        """The Soundex code of an English word: a letter and three digits; else the word itself."""
        return call("soundex", self._expr)

    def encode(self, encoding: str = "utf-8") -> E:
        """The UTF-8 bytes as binary ("utf-8"), or as a string in "hex" (lower case) or "base64"."""
        match encoding.lower():
            case "utf-8" | "utf8":
                return self._expr.cast("binary")
            case "hex":
                return call("lower", call("hex", self._expr))
            case "base64":
                return call("replace", call("base64", self._expr), "\r\n", "")
        raise PlanError(f"encode knows utf-8, hex and base64, got {encoding!r}")

    def decode(self, encoding: str, *, strict: bool = True) -> E:
        """The bytes, a binary, that a string in "hex" or "base64" stands for, as in Polars.

        A string not in this encoding fails the job; not `strict`, it and unpadded base64 are null.
        """
        functions = {"hex": "decode_hex", "base64": "unbase64"}
        if encoding not in functions:
            raise PlanError(f"decode knows hex and base64, got {encoding!r}")
        if strict:
            return call(functions[encoding], self._expr)
        if encoding == "base64":
            return case(self.contains(_BASE64), call("unbase64", self._expr))
        is_even = call("eq", call("length", self._expr) % 2, 0)
        return case(is_even, call("unhex", self._expr))

    def starts_with(self, prefix: IntoText) -> E:
        """True where the string begins with `prefix`, a plain text or a column."""
        return call("starts_with", self._expr, prefix)

    def ends_with(self, suffix: IntoText) -> E:
        """True where the string ends with `suffix`, a plain text or a column."""
        return call("ends_with", self._expr, suffix)

    def concat(self, *others: IntoText) -> E:
        """The string followed by `others`; null where any of them is null. Cast numbers before."""
        return call("concat", self._expr, *others)

    def to_date(self, format: str | None = None, *, strict: bool = True) -> E:
        """Parsed as a date: ``yyyy-MM-dd``, or by directives such as ``"%d/%m/%Y"``.

        A text that does not fit fails the job, or is null when not `strict`.

        >>> from fabric import col
        >>> col("day").str.to_date("%d/%m/%Y")
        to_date(col("day"), lit("d/M/yyyy"))
        """
        if format is None:
            return self._expr.cast("date", strict=strict)
        pattern = reading_pattern(format, "to_date")
        if strict:
            return call("to_date", self._expr, pattern)
        return call("to_date", call("try_to_timestamp", self._expr, pattern))

    def to_datetime(
        self,
        format: str | None = None,
        *,
        strict: bool = True,
        time_zone: str | None = None,
        ambiguous: str = "raise",
    ) -> E:
        """Parsed as a timestamp: ISO 8601, or by directives such as ``"%Y-%m-%d %H:%M:%S"``.

        It has no zone, as in Polars, unless the format has ``%z`` (then it is in UTC) or there is
        a `time_zone`, whose clocks show the text. A text that does not fit fails the job, or is
        null when not `strict`; nor does one with an offset or a zone, unless the format says so:
        for ISO 8601 write ``.cast("timestamp")``.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": ["1.5.2024"]}).select(col("x").str.to_datetime("%d.%m.%Y")).to_dicts()
        [{'x': datetime.datetime(2024, 5, 1, 0, 0)}]
        """
        if format is None:
            zoned = call("pattern_contains", self._expr, _ZONE)
            marked = call_of(self._expr, "concat", "a zone: ", self._expr)
            text = case(zoned, marked, self._expr)
            found = text.cast("timestamp[us]", strict=strict)  # which no text with `a zone:` can be
        else:
            pattern = reading_pattern(format, "to_datetime")
            name = "to_timestamp" if strict else "try_to_timestamp"
            found = call(name, self._expr, pattern)
            if "%z" in format or "%:z" in format:
                if time_zone is None:
                    return found
                return DateTimeMethods(found).convert_time_zone(time_zone)
            found = found.cast("timestamp[us]")
        if time_zone is None:
            return found
        return DateTimeMethods(found).replace_time_zone(time_zone, ambiguous=ambiguous)

    def strptime(self, dtype: DTypeLike, format: str | None = None, *, strict: bool = True) -> E:
        """Parsed as `dtype`, a date or a timestamp, which may have a zone; see `to_datetime`."""
        wanted = to_dtype(dtype)
        if pa.types.is_date(wanted):
            return self.to_date(format, strict=strict)
        return self.to_datetime(format, strict=strict).cast(wanted)

    to_uppercase = upper
    to_lowercase = lower
    len_chars = length
    octet_length = len_bytes
    startswith = starts_with
    strip = strip_chars
    substr = substring
    endswith = ends_with


def _after(prefix: IntoText) -> IntoNumber:
    """The place of the first character behind a prefix."""
    return len(prefix) + 1 if isinstance(prefix, str) else call("length", prefix) + 1


helpful(StringMethods, PatternMethods, space="str.")
suggesting(
    StringMethods,
    ".str",
    lambda: {"join": '.collect_list().list.join("-"), in agg, or fabric.concat_str("a", "b")'},
    lambda item: part_of("str", item, ".str.slice({}, 1)"),
)
