"""Functions of patterns on Spark, by the normal form that Java and RE2 read alike.

One job: their spelling in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fabric.clients.spark.expressions.build import Build
from fabric.plan.patterns.regex import Regex, parse
from fabric.plan.patterns.replacement import parse as parse_replacement
from fabric.plan.patterns.replacement import parse_rust

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


def _by_pattern(name: str, result: str, others: Callable[..., Sequence[Any]]) -> Build:
    """Spark's function `name` of the text, the pattern and `others`; null when one is null."""

    def build(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
        from pyspark.sql import functions as sf

        if None in values[1:]:
            return sf.lit(None).cast(result)
        pattern = sf.lit(parse(values[1]).java())
        return sf.call_function(name, args[0], pattern, *map(sf.lit, others(*values[1:])))

    return build


def _nothing(*_: Any) -> Sequence[Any]:
    return ()


def _group(_: str, group: int) -> Sequence[Any]:
    return (group,)


def _replacement(pattern: str, text: str) -> Sequence[Any]:
    return (parse_replacement(text, parse(pattern)).java(),)


def _rust(make: Callable[..., Callable[[SparkColumn], SparkColumn]], result: str) -> Build:
    """A function of a pattern of Rust, null when one of the constants is."""

    def build(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
        from pyspark.sql import functions as sf

        if None in values[1:]:
            return sf.lit(None).cast(result)
        return make(parse(values[1], rust=True), *values[2:])(args[0])

    return build


def _rust_named(name: str, *others: Any) -> Callable[[Regex], Callable[[SparkColumn], SparkColumn]]:
    def make(regex: Regex) -> Callable[[SparkColumn], SparkColumn]:
        from pyspark.sql import functions as sf

        rest = [sf.lit(regex.java()), *map(sf.lit, others)]
        return lambda text: sf.call_function(name, text, *rest)

    return make


def _rust_extract(regex: Regex, group: int) -> Callable[[SparkColumn], SparkColumn]:
    """Spark gives an empty text for a group that took no part. A back-reference matches only where
    its group did, and then the group's text is somewhere from the beginning on."""
    from pyspark.sql import functions as sf

    java = regex.java()
    has = f"^(?=[\\s\\S]*?(?:{java}))[\\s\\S]*?\\{group}" if group else java
    return lambda text: sf.when(sf.rlike(text, sf.lit(has)), sf.regexp_extract(text, java, group))


def _rust_replace(regex: Regex, text: str) -> Callable[[SparkColumn], SparkColumn]:
    """Only the first match: one from the text's beginning that has what is before as group 1."""
    from pyspark.sql import functions as sf

    pattern = f"^([\\s\\S]*?)({regex.java()})"
    new = f"$1{parse_rust(text, regex).java(shift=2)}"
    new = f"$1\\{new[2:]}" if new[2:3].isdigit() else new
    return lambda value: sf.regexp_replace(value, sf.lit(pattern), sf.lit(new))


def _rust_replace_all(regex: Regex, text: str) -> Callable[[SparkColumn], SparkColumn]:
    return _rust_named("regexp_replace", parse_rust(text, regex).java())(regex)


FUNCTIONS: dict[str, Build] = {
    "regexp_contains": _by_pattern("rlike", "boolean", _nothing),
    "regexp_extract": _by_pattern("regexp_extract", "string", _group),
    "regexp_extract_all": _by_pattern("regexp_extract_all", "array<string>", _group),
    "regexp_replace": _by_pattern("regexp_replace", "string", _replacement),
    "regexp_count": _by_pattern("regexp_count", "int", _nothing),
    "pattern_contains": _rust(_rust_named("rlike"), "boolean"),
    "pattern_extract": _rust(_rust_extract, "string"),
    "pattern_extract_all": _rust(_rust_named("regexp_extract_all", 0), "array<string>"),
    "pattern_replace": _rust(_rust_replace, "string"),
    "pattern_replace_all": _rust(_rust_replace_all, "string"),
    "pattern_count": _rust(_rust_named("regexp_count"), "int"),
}
