"""Functions of patterns with Polars' meaning: by RE2, or by Python where RE2 can't.

One job: pattern_contains pattern_extract pattern_extract_all pattern_replace pattern_replace_all
pattern_count. Python's `re` finds words of Unicode and what is too large for RE2, and tells a group
that took no part in a match from an empty one: each different text once, some 1 µs each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fabric.operators.expressions.arrow import regex as re2
from fabric.operators.expressions.arrow.bound import Implementation, Kernel, Request
from fabric.operators.expressions.arrow.rows import by_value
from fabric.plan.patterns.regex import Regex, parse
from fabric.plan.patterns.replacement import parse_rust

Found = re.Pattern[str]


def _by_python(regex: Regex, one: Callable[[Found, str], Any], dtype: pa.DataType) -> Kernel:
    found = re.compile(regex.python())
    return lambda value: by_value(value, lambda text: one(found, text), dtype)


def _contains(request: Request, pattern: str) -> Kernel:
    regex = parse(pattern, rust=True)
    if not regex.is_re2:
        return _by_python(regex, lambda found, text: bool(found.search(text)), request.result)
    text = regex.re2()
    return lambda value: pc.match_substring_regex(value, pattern=text)


def _extract(request: Request, pattern: str) -> Kernel:
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


def _extract_all(request: Request, pattern: str) -> Kernel:
    regex = parse(pattern, rust=True)
    if regex.is_re2:
        return re2.all_matches(regex, 0)

    def one(found: Found, text: str) -> list[str]:
        return [match[0] for match in found.finditer(text)]

    return _by_python(regex, one, request.result)


def _replace(n_most: int) -> Callable[[Request, str], Kernel]:
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


def _count(request: Request, pattern: str) -> Kernel:
    regex = parse(pattern, rust=True)
    if regex.is_re2:
        return re2.n_matches(regex)
    return _by_python(
        regex, lambda found, text: sum(1 for _ in found.finditer(text)), request.result
    )


IMPLEMENTATIONS: dict[str, Implementation] = {
    "pattern_contains": re2.with_pattern(_contains),
    "pattern_extract": re2.with_pattern(_extract),
    "pattern_extract_all": re2.with_pattern(_extract_all),
    "pattern_replace": re2.with_pattern(_replace(1)),
    "pattern_replace_all": re2.with_pattern(_replace(0)),
    "pattern_count": re2.with_pattern(_count),
}
