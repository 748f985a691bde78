"""Functions of patterns, by RE2 in the normal form of `fabric.plan.patterns`.

Patterns are constants; a null one makes all null. The functions with Spark's names (regexp_*,
like, ilike) are RE2's alone. Those with Polars' meaning (pattern_*) go to Python's `re` where RE2
can't: it finds words of Unicode and what is too large for RE2, and tells a group that took no part
in a match from an empty one: each different text once, some 1 µs each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric.operators.expressions.arrow.bound import (
    Bound,
    Implementation,
    Kernel,
    Request,
    all_null,
    by_value,
    from_numpy,
)
from fabric.operators.expressions.arrow.strings import lower
from fabric.plan.patterns.regex import Regex, parse
from fabric.plan.patterns.replacement import parse as parse_replacement
from fabric.plan.patterns.replacement import parse_rust

_NONCHARACTERS = range(0xFDD0, 0x10FFFF)
Found = re.Pattern[str]


def with_pattern(make: Callable[[Request, str], Kernel]) -> Implementation:
    """A kernel of the text alone, made of the constants; null when one of them is."""

    def implementation(request: Request) -> Bound:
        constants = [request.constant(i) for i in range(1, len(request.operands))]
        if None in constants:
            return all_null(request)
        kernel = make(request, constants[0])
        return Bound(lambda value, *_: kernel(value), array=0)

    return implementation


def _parsed(request: Request, pattern: str) -> Regex:
    """As Rust reads it, or as Java does: that is always RE2's."""
    return parse(pattern, rust=request.name.startswith("pattern_"))


def _contains(request: Request, pattern: str) -> Kernel:
    regex = _parsed(request, pattern)
    if not regex.is_re2:
        return _by_python(regex, lambda found, text: bool(found.search(text)), request.result)
    text = regex.re2()
    return lambda value: pc.match_substring_regex(value, pattern=text)


def _like(_: Request, pattern: str) -> Kernel:
    return lambda value: pc.match_like(value, pattern=pattern)


def _ilike(_: Request, pattern: str) -> Kernel:
    folded = pattern.lower()
    return lambda value: pc.match_like(lower(value), pattern=folded)


def _extract(request: Request, pattern: str) -> Kernel:
    text = parse(pattern).re2_of_group(request.constant(2))

    def kernel(value: pa.Array) -> pa.Array:
        found = pc.struct_field(pc.extract_regex(value, pattern=text), "g")
        return pc.if_else(pc.is_valid(value), pc.fill_null(found, ""), found)

    return kernel


def _replace(request: Request, pattern: str) -> Kernel:
    regex = parse(pattern)
    return _replaced(regex, parse_replacement(request.constant(2), regex).re2())


def _replaced(regex: Regex, rewrite: str) -> Kernel:
    text = regex.re2()
    return lambda value: pc.replace_substring_regex(value, pattern=text, replacement=rewrite)


def _count(request: Request, pattern: str) -> Kernel:
    regex = _parsed(request, pattern)
    if regex.is_re2:
        return n_matches(regex)
    return _by_python(
        regex, lambda found, text: sum(1 for _ in found.finditer(text)), request.result
    )


def n_matches(regex: Regex) -> Kernel:
    """By what a sign after each match adds; Arrow's own count finds ``^`` anew after a match."""
    marked = _replaced(regex, "\\0.")
    return lambda value: pc.subtract(pc.binary_length(marked(value)), pc.binary_length(value))


def _extract_all(request: Request, pattern: str) -> Kernel:
    regex = _parsed(request, pattern)
    if regex.is_re2:
        return all_matches(regex, request.constant(2) if len(request.operands) == 3 else 0)

    def one(found: Found, text: str) -> list[str]:
        return [match[0] for match in found.finditer(text)]

    return _by_python(regex, one, request.result)


def all_matches(regex: Regex, group: int) -> Kernel:
    """Marks what is wanted by a sign that no text has, and takes every second part."""

    def kernel(value: pa.Array) -> pa.Array:
        sign = _unused(value)
        marked = _replaced(regex, f"{sign}\\{group}{sign}")(value)
        return every_second(pc.split_pattern(marked, pattern=sign))

    return kernel


def _unused(value: pa.Array) -> str:
    """A character that occurs nowhere."""
    signs = map(chr, _NONCHARACTERS)
    return next(s for s in signs if not pc.any(pc.match_substring(value, pattern=s)).as_py())


def every_second(lists: pa.Array) -> pa.Array:
    """Lists of an odd length without their first, third, ... value.

    >>> every_second(pa.array([["a"], ["a", "b", "c"], None])).to_pylist()
    [[], ['b'], None]
    """
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    begins = np.concatenate(([0], np.cumsum(lengths)))
    place = np.arange(begins[-1]) - np.repeat(begins[:-1], lengths)
    kept = lists.flatten().filter(pa.array(place % 2 == 1))
    offsets = from_numpy(np.concatenate(([0], np.cumsum(lengths // 2))), pa.int32())
    return pa.ListArray.from_arrays(offsets, kept, mask=pc.is_null(lists))


def _by_python(regex: Regex, one: Callable[[Found, str], Any], dtype: pa.DataType) -> Kernel:
    found = re.compile(regex.python())
    return lambda value: by_value(value, lambda text: one(found, text), dtype)


def _rust_extract(request: Request, pattern: str) -> Kernel:
    regex, group = parse(pattern, rust=True), request.constant(2)

    def one(found: Found, text: str) -> str | None:
        match = found.search(text)
        return match and match[group]

    by_python = _by_python(regex, one, request.result)
    if not regex.is_re2:
        return by_python
    text = regex.re2_of_group(group)

    def kernel(value: pa.Array) -> pa.Array:
        found = pc.struct_field(pc.extract_regex(value, pattern=text), "g")
        empty = pc.fill_null(pc.equal(found, ""), False)
        if not group or not pc.any(empty).as_py():
            return found
        return pc.replace_with_mask(found, empty, by_python(value.filter(empty)))

    return kernel


def _rust_replace(n_most: int) -> Callable[[Request, str], Kernel]:
    """`n_most` matches from the left, 0 for all, as `re.sub` counts."""

    def make(request: Request, pattern: str) -> Kernel:
        regex = parse(pattern, rust=True)
        new = parse_rust(request.constant(2), regex)
        if not regex.is_re2:
            return _by_python(
                regex, lambda found, text: found.sub(new.of, text, n_most), request.result
            )
        text, rewrite = regex.re2(), new.re2()
        options = {"max_replacements": n_most} if n_most else {}
        return lambda value: pc.replace_substring_regex(
            value, pattern=text, replacement=rewrite, **options
        )

    return make


IMPLEMENTATIONS: dict[str, Implementation] = {
    "regexp_contains": with_pattern(_contains),
    "regexp_extract": with_pattern(_extract),
    "regexp_extract_all": with_pattern(_extract_all),
    "regexp_replace": with_pattern(_replace),
    "regexp_count": with_pattern(_count),
    "like": with_pattern(_like),
    "ilike": with_pattern(_ilike),
    "pattern_contains": with_pattern(_contains),
    "pattern_extract": with_pattern(_rust_extract),
    "pattern_extract_all": with_pattern(_extract_all),
    "pattern_replace": with_pattern(_rust_replace(1)),
    "pattern_replace_all": with_pattern(_rust_replace(0)),
    "pattern_count": with_pattern(_count),
}
