"""Functions of patterns: regexp_contains … regexp_count, pattern_contains …, like, ilike.

One job: their types, and that a pattern, which must be a constant, means the same in every engine
(`fabric.plan.patterns`). Those called ``regexp_…`` mean what Spark says, those called ``pattern_…``
what Polars says: they are the methods of Polars' names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from fabric.plan.faults import ArgumentFault
from fabric.plan.functions.registry import (
    Arguments,
    Function,
    I,
    Rule,
    S,
    Signature,
    product,
    takes,
)
from fabric.plan.patterns.regex import PatternFault, check_like, parse
from fabric.plan.patterns.replacement import parse as parse_replacement
from fabric.plan.patterns.replacement import parse_rust

_METHODS = {"regexp_contains": "rlike", "pattern_count": "count_matches"}
"""What users call these; others by their names without ``pattern_``."""
_BY_NAME = ("like", "ilike")
_GROWING = ("regexp_replace", "pattern_replace", "pattern_replace_all")
_Check = Callable[[str, tuple[object, ...]], None]


def _shown(name: str) -> str:
    return _METHODS.get(name, name.removeprefix("pattern_"))


def _rule(name: str, wanted: tuple[pa.DataType, ...], result: pa.DataType, check: _Check) -> Rule:
    """Fixed types, and `check` of the pattern and the constants after it when they are known."""
    shown = _shown(name)
    typed = takes(wanted, result)

    def rule(args: Arguments) -> Signature:
        found = typed(replace(args, name=shown))
        pattern, *others = (literal and literal.value for literal in args.literals[1:])
        if isinstance(pattern, str):
            try:
                check(pattern, tuple(others))
            except PatternFault as fault:
                raise ArgumentFault(f"{shown}: {fault} in {pattern[:200]!r}", 1) from None
        return found

    return rule


def _like(pattern: str, _: tuple[object, ...]) -> None:
    check_like(pattern)


def _checked(*, rust: bool, may_be_empty: bool = False) -> _Check:
    """A pattern, and what comes after it: what a match is replaced by, or the number of a group."""

    def check(pattern: str, others: tuple[object, ...]) -> None:
        regex = parse(pattern, rust=rust)
        if regex.empty and not may_be_empty:  # engines find empty matches at different places
            raise PatternFault("a pattern that can match nothing")
        given = others[0] if others else None
        if isinstance(given, str):
            (parse_rust if rust else parse_replacement)(given, regex)
        if isinstance(given, int) and not 0 <= given <= regex.n_groups:
            raise PatternFault(f"there is no group {given}, the last is {regex.n_groups},")

    return check


_JAVA, _ANY_JAVA = _checked(rust=False), _checked(rust=False, may_be_empty=True)
_RUST, _ANY_RUST = _checked(rust=True), _checked(rust=True, may_be_empty=True)
_FIXED: tuple[tuple[str, tuple[pa.DataType, ...], pa.DataType, _Check, str], ...] = (
    ("regexp_contains", (S, S), pa.bool_(), _ANY_JAVA, "whether pattern b matches anywhere in a"),
    ("like", (S, S), pa.bool_(), _like, "whether a is like b: % any text, _ any character"),
    ("ilike", (S, S), pa.bool_(), _like, "whether a is like b when both are in lower case"),
    ("regexp_extract", (S, S, I), S, _ANY_JAVA,
     "group c (0: all) of the first match of pattern b, empty when there is none"),
    ("regexp_extract_all", (S, S, I), pa.list_(S), _JAVA,
     "group c (0: all) of every match of pattern b"),
    ("regexp_replace", (S, S, S), S, _JAVA,
     "every match of pattern b replaced by c, where $1 is the first group"),
    ("regexp_count", (S, S), I, _JAVA, "how often pattern b matches"),
    ("pattern_contains", (S, S), pa.bool_(), _ANY_RUST, "whether pattern b of Rust matches in a"),
    ("pattern_extract", (S, S, I), S, _ANY_RUST,
     "group c (0: all) of the first match of pattern b of Rust, null when there is none"),
    ("pattern_extract_all", (S, S), pa.list_(S), _RUST,
     "every match of pattern b of Rust"),
    ("pattern_replace", (S, S, S), S, _ANY_RUST,
     "the first match of pattern b of Rust replaced by c, where $1 is the first group"),
    ("pattern_replace_all", (S, S, S), S, _RUST,
     "every match of pattern b of Rust replaced by c, where $1 is the first group"),
    ("pattern_count", (S, S), I, _RUST, "how often pattern b of Rust matches"),
)  # fmt: skip
FUNCTIONS = tuple(
    Function(
        name,
        (len(args), len(args)),
        _rule(name, args, result, check),
        doc,
        tuple(range(1, len(args))),
        total=True,
        text=f".str.{_shown(name)}",
        spark=name if name in _BY_NAME else "",
        room=product if name in _GROWING else None,
    )
    for name, args, result, check, doc in _FIXED
)
