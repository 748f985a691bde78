"""Functions of patterns on Spark, by the normal form that Java and RE2 read alike.

One job: their spelling in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from fabric.clients.spark.expressions.build import Build, unless_null
from fabric.plan.patterns.regex import Regex, parse
from fabric.plan.patterns.replacement import parse as parse_replacement
from fabric.plan.patterns.replacement import parse_rust


def _rest(_: str, *constants: Any) -> Sequence[Any]:
    return constants


def _by_pattern(name: str, result: str, others: Callable[..., Sequence[Any]] = _rest) -> Build:
    """Spark's function `name` of the text, the pattern and `others`; null when one is null."""

    def build(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
        pattern = sf.lit(parse(values[1]).java())
        return sf.call_function(name, args[0], pattern, *map(sf.lit, others(*values[1:])))

    return unless_null(result, build)


def _replacement(pattern: str, text: str) -> Sequence[Any]:
    return (parse_replacement(text, parse(pattern)).java(),)


def _rust(make: Callable[..., SparkColumn], result: str) -> Build:
    """A function of a pattern of Rust, null when one of the constants is."""

    def build(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
        return make(args[0], parse(values[1], rust=True), *values[2:])

    return unless_null(result, build)


def _rust_named(name: str, *others: Any) -> Callable[[SparkColumn, Regex], SparkColumn]:
    def make(text: SparkColumn, regex: Regex) -> SparkColumn:
        return sf.call_function(name, text, sf.lit(regex.java()), *map(sf.lit, others))

    return make


def _rust_extract(text: SparkColumn, regex: Regex, group: int) -> SparkColumn:
    """Spark gives an empty text for a group that took no part. A back-reference matches only where
    its group did, and then the group's text is somewhere from the beginning on."""
    java = regex.java()
    has = f"^(?=[\\s\\S]*?(?:{java}))[\\s\\S]*?\\{group}" if group else java
    return sf.when(sf.rlike(text, sf.lit(has)), sf.regexp_extract(text, java, group))


def _rust_replace(text: SparkColumn, regex: Regex, by: str) -> SparkColumn:
    """Only the first match: one from the text's beginning that has what is before as group 1."""
    pattern = f"^([\\s\\S]*?)({regex.java()})"
    new = f"$1{parse_rust(by, regex).java(shift=2)}"
    new = f"$1\\{new[2:]}" if new[2:3].isdigit() else new
    return sf.regexp_replace(text, sf.lit(pattern), sf.lit(new))


def _rust_replace_all(text: SparkColumn, regex: Regex, by: str) -> SparkColumn:
    return _rust_named("regexp_replace", parse_rust(by, regex).java())(text, regex)


FUNCTIONS: dict[str, Build] = {
    "regexp_contains": _by_pattern("rlike", "boolean"),
    "regexp_extract": _by_pattern("regexp_extract", "string"),
    "regexp_extract_all": _by_pattern("regexp_extract_all", "array<string>"),
    "regexp_replace": _by_pattern("regexp_replace", "string", _replacement),
    "regexp_count": _by_pattern("regexp_count", "int"),
    "pattern_contains": _rust(_rust_named("rlike"), "boolean"),
    "pattern_extract": _rust(_rust_extract, "string"),
    "pattern_extract_all": _rust(_rust_named("regexp_extract_all", 0), "array<string>"),
    "pattern_replace": _rust(_rust_replace, "string"),
    "pattern_replace_all": _rust(_rust_replace_all, "string"),
    "pattern_count": _rust(_rust_named("regexp_count"), "int"),
}
