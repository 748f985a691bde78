"""Functions of patterns on Spark, by the normal form that Java and RE2 read alike.

One job: their spelling in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fabric.clients.spark.expressions.build import Build, named
from fabric.plan.patterns.regex import parse
from fabric.plan.patterns.replacement import parse as parse_replacement

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


FUNCTIONS: dict[str, Build] = {
    "regexp_contains": _by_pattern("rlike", "boolean", _nothing),
    "regexp_extract": _by_pattern("regexp_extract", "string", _group),
    "regexp_extract_all": _by_pattern("regexp_extract_all", "array<string>", _group),
    "regexp_replace": _by_pattern("regexp_replace", "string", _replacement),
    "regexp_count": _by_pattern("regexp_count", "int", _nothing),
    "like": named("like"),
    "ilike": named("ilike"),
}
