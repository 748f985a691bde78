"""Functions of bytes on Spark: base64 … crc32.

One job: their spelling in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fabric.clients.spark.expressions.build import Build, named

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

_SAME = ("base64", "hex", "unhex", "bin", "md5", "sha1", "crc32")


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
    **{name: named(name) for name in _SAME},
    "unbase64": _unbase64,
    "decode_hex": _decode_hex,
    "sha2": _sha2,
}
