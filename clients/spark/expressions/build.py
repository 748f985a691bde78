"""How a family of functions is spelt in Spark: the shape of its table.

One job: `Build`, and the builders most functions need, `named` and `operator`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fabric.plan.functions.registry import Signature

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

Build = Callable[["Sequence[SparkColumn]", Sequence[Any]], "SparkColumn"]
"""Makes a column of the arguments (cast to the signature) and their constant values (or None)."""
TypedBuild = Callable[["Sequence[SparkColumn]", Signature], "SparkColumn"]
"""Makes a column of the arguments, cast to the types of the signature, and these types."""


def named(name: str) -> Build:
    """A function of Spark's by its name, applied to all arguments."""

    def build(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
        from pyspark.sql import functions as sf

        return sf.call_function(name, *args)

    return build


def operator(apply: Callable[..., SparkColumn]) -> Build:
    """A Python operator or method of columns, applied to all arguments."""
    return lambda args, _: apply(*args)
