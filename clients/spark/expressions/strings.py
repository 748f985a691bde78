"""Functions of strings and bytes on Spark: trim, split, unbase64, sha2.

One job: the forms of functions that Spark has under no name of the same meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from fabric.clients.spark.expressions.build import Build, named, operator, unless_null
from fabric.plan.patterns.charset import escaped


def _trimmed(name: str) -> Build:
    """The characters are the first argument of Spark's `ltrim` and `rtrim`, not of its `btrim`."""
    return lambda args, _: sf.call_function(name, *args[::-1])


def _split(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    """By plain text, which Spark takes as a pattern."""
    limit = values[2] if len(values) == 3 and values[2] > 0 else -1
    return sf.split(args[0], "".join(map(escaped, values[1])), limit)


def _decode_hex(text: SparkColumn) -> SparkColumn:
    """Spark puts a digit in front of an odd number of them; a question mark is none."""
    is_odd = sf.length(text) % 2 == 1
    return sf.to_binary(
        sf.when(is_odd, sf.concat(text, sf.lit("?"))).otherwise(text), sf.lit("hex")
    )


FUNCTIONS: dict[str, Build] = {
    "trim": named("btrim"),
    "ltrim": _trimmed("ltrim"),
    "rtrim": _trimmed("rtrim"),
    "split": unless_null("array<string>", _split),
    # Spark's own `unbase64` skips what is no base64, this raises.
    "unbase64": operator(lambda text: sf.to_binary(text, sf.lit("base64"))),
    "decode_hex": operator(_decode_hex),
    "sha2": unless_null("string", lambda args, values: sf.sha2(args[0], values[1])),
}
