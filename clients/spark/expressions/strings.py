"""Functions of strings on Spark: upper … soundex.

One job: their spelling in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fabric.clients.spark.expressions.build import Build, named
from fabric.plan.patterns.charset import escaped

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

_SAME = (
    "upper", "lower", "initcap", "reverse", "length", "substring", "contains", "replace",
    "translate", "instr", "ascii", "chr", "levenshtein", "soundex", "lpad", "rpad", "repeat",
    "split_part", "concat_ws",
)  # fmt: skip


def _concat(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    return sf.concat(*args)


def _trimmed(name: str) -> Build:
    """The characters are Spark's second argument in `btrim`, the first in `ltrim` and `rtrim`."""

    def build(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
        from pyspark.sql import functions as sf

        turned = args if name == "btrim" else args[::-1]
        return sf.call_function(name, *turned)

    return build


def _split(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    """By plain text, which Spark takes as a pattern."""
    from pyspark.sql import functions as sf

    if None in values[1:]:
        return sf.lit(None).cast("array<string>")
    limit = values[2] if len(values) == 3 and values[2] > 0 else -1
    return sf.split(args[0], "".join(map(escaped, values[1])), limit)


FUNCTIONS: dict[str, Build] = {
    **{name: named(name) for name in _SAME},
    "trim": _trimmed("btrim"),
    "ltrim": _trimmed("ltrim"),
    "rtrim": _trimmed("rtrim"),
    "concat": _concat,
    "starts_with": named("startswith"),
    "ends_with": named("endswith"),
    "split": _split,
}
