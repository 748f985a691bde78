"""Functions of strings; lengths and positions count Unicode characters, the first is 1.

One job: upper lower length trim ltrim rtrim substring concat contains starts_with ends_with
replace. The rarer functions are in `texts.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Kernel,
    Request,
    by_row,
    by_value,
    simple,
)

_INT32_MAX = (1 << 31) - 1
_INT32_MIN = -(1 << 31)


def _case(same_length: Kernel, convert: Callable[[str], str]) -> Implementation:
    """Full Unicode case mapping, which may change the length (``ß`` becomes ``SS``).

    Arrow's own mapping never does, so it serves ASCII only. Its ``ascii_upper`` and ``ascii_lower``
    read wrong bytes where the first offset is not 0, as in every slice that comes from Rust.
    """

    return simple(_cased(same_length, convert))


def _cased(same_length: Kernel, convert: Callable[[str], str]) -> Kernel:
    def kernel(value: pa.Array) -> pa.Array:
        if pc.all(pc.string_is_ascii(value)).as_py() is not False:
            return same_length(value)
        return by_value(value, convert, value.type)

    return kernel


lower = _cased(pc.utf8_lower, str.lower)
"""In lower case."""


def _length(request: Request) -> Bound:
    count = pc.binary_length if t.is_binary(request.operands[0]) else pc.utf8_length
    return Bound(lambda value: count(value).cast(pa.int32()))


def _trim(kernel: Callable[..., Datum], strip: Callable[[str, str], str]) -> Implementation:
    """Only spaces, no tabs; or any of some characters."""

    def implementation(request: Request) -> Bound:
        if (given := request.others) is None:
            return Bound(by_row(lambda text, of: strip(text, of) if of else text, pa.string()))
        (characters,) = given or (" ",)
        if characters == "":
            return Bound(lambda value, _: value, array=0)
        return Bound(lambda value, *_: kernel(value, characters=characters), array=0)

    return implementation


def substring_of(text: str, start: int, length: int = _INT32_MAX) -> str:
    """Spark's rule: 0 is the beginning too, below 0 counts from the end and may begin before it.

    >>> substring_of("abc", 2), substring_of("abc", -5, 3), substring_of("abc", 0, 2)
    ('bc', 'a', 'ab')
    """
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = max(_INT32_MIN, min(begin + length, _INT32_MAX))
    return text[max(begin, 0) : max(end, 0)]


def _substring(request: Request) -> Bound:
    if (given := request.others) is None:
        return Bound(by_row(substring_of, pa.string()))
    start, length = given if len(given) == 2 else (*given, _INT32_MAX)
    begin = start - 1 if start > 0 else start
    end: int | None = begin + length
    if begin < 0 and begin + length >= 0:
        end = None

    def kernel(value: pa.Array, *_: Datum) -> pa.Array:
        if length <= 0:
            return pc.utf8_slice_codeunits(value, 0, 0)
        return pc.utf8_slice_codeunits(value, begin, end)

    return Bound(kernel, array=0)


def _concat(request: Request) -> Bound:
    separator = pa.scalar("", request.result)
    join = pc.binary_join_element_wise
    return Bound(lambda *parts: join(*parts, separator, null_handling="emit_null"))


def _search(kernel: Callable[..., Datum], test: Callable[[str, str], bool]) -> Implementation:
    """A kernel for a constant pattern, rows for others."""

    def implementation(request: Request) -> Bound:
        if (given := request.others) is None:
            return Bound(by_row(test, pa.bool_()))
        return Bound(lambda value, _: kernel(value, pattern=given[0]), array=0)

    return implementation


def replaced(text: str, old: str, new: str) -> str:
    """Every `old` replaced, from the left; an empty `old` replaces nothing."""
    return text.replace(old, new) if old else text


def _replace(request: Request) -> Bound:
    if (given := request.others) is None:
        return Bound(by_row(replaced, pa.string()))
    old, new = given
    if old == "":
        return Bound(lambda value, *_: value, array=0)
    return Bound(
        lambda value, *_: pc.replace_substring(value, pattern=old, replacement=new), array=0
    )


IMPLEMENTATIONS: dict[str, Implementation] = {
    "upper": _case(pc.utf8_upper, str.upper),
    "lower": simple(lower),
    "length": _length,
    "trim": _trim(pc.utf8_trim, str.strip),
    "ltrim": _trim(pc.utf8_ltrim, str.lstrip),
    "rtrim": _trim(pc.utf8_rtrim, str.rstrip),
    "substring": _substring,
    "concat": _concat,
    "contains": _search(pc.match_substring, lambda text, part: part in text),
    "starts_with": _search(pc.starts_with, str.startswith),
    "ends_with": _search(pc.ends_with, str.endswith),
    "replace": _replace,
}
