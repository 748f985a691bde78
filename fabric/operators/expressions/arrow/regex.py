"""Functions of patterns, by RE2 in the normal form of `fabric.plan.patterns`.

One job: regexp_contains regexp_extract regexp_extract_all regexp_replace regexp_count like ilike.
Patterns are constants; a null one makes everything null.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric.operators.expressions.arrow.bound import Bound, Implementation, Kernel, Request
from fabric.operators.expressions.arrow.buffers import from_numpy
from fabric.operators.expressions.arrow.strings import lower
from fabric.plan.patterns.regex import Regex, parse
from fabric.plan.patterns.replacement import parse as parse_replacement

_NONCHARACTERS = range(0xFDD0, 0x10FFFF)


def with_pattern(make: Callable[[Request, str], Kernel]) -> Implementation:
    """A kernel of the text alone, made of the constants; null when one of them is."""

    def implementation(request: Request) -> Bound:
        constants = [request.constant(i) for i in range(1, len(request.operands))]
        if None in constants:
            return Bound(lambda value, *_: pa.nulls(len(value), request.result), array=0)
        kernel = make(request, constants[0])
        return Bound(lambda value, *_: kernel(value), array=0)

    return implementation


def _contains(_: Request, pattern: str) -> Kernel:
    text = parse(pattern).re2()
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


def _count(_: Request, pattern: str) -> Kernel:
    return n_matches(parse(pattern))


def n_matches(regex: Regex) -> Kernel:
    """By what a sign after each match adds; Arrow's own count finds ``^`` anew after a match."""
    marked = _replaced(regex, "\\0.")
    return lambda value: pc.subtract(pc.binary_length(marked(value)), pc.binary_length(value))


def _extract_all(request: Request, pattern: str) -> Kernel:
    return all_matches(parse(pattern), request.constant(2))


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


IMPLEMENTATIONS: dict[str, Implementation] = {
    "regexp_contains": with_pattern(_contains),
    "regexp_extract": with_pattern(_extract),
    "regexp_extract_all": with_pattern(_extract_all),
    "regexp_replace": with_pattern(_replace),
    "regexp_count": with_pattern(_count),
    "like": with_pattern(_like),
    "ilike": with_pattern(_ilike),
}
