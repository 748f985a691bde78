"""Functions of strings and bytes on Spark: trim, split, unbase64, sha2.

One job: the forms of functions that Spark has under no name of the same meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fabric.clients.spark.expressions.build import Build
from fabric.plan.patterns.charset import escaped

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


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


def _sha2(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    bits = values[1]
    return sf.lit(None).cast("string") if bits is None else sf.sha2(args[0], bits)


def _unbase64(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
    """Spark's `unbase64` skips what is no base64, this raises."""
    from pyspark.sql import functions as sf

    return sf.to_binary(args[0], sf.lit("base64"))


def _decode_hex(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
    """Spark puts a digit in front of an odd number of them; a question mark is none."""
    from pyspark.sql import functions as sf

    (text,) = args
    is_odd = sf.length(text) % 2 == 1
    return sf.to_binary(
        sf.when(is_odd, sf.concat(text, sf.lit("?"))).otherwise(text), sf.lit("hex")
    )


FUNCTIONS: dict[str, Build] = {
    "trim": _trimmed("btrim"),
    "ltrim": _trimmed("ltrim"),
    "rtrim": _trimmed("rtrim"),
    "split": _split,
    "unbase64": _unbase64,
    "decode_hex": _decode_hex,
    "sha2": _sha2,
}
