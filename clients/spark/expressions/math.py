"""Functions of numbers as float64 on Spark: sqrt … width_bucket.

One job: their spelling in Spark.
"""

from __future__ import annotations

from fabric.clients.spark.expressions.build import Build, named

_SAME = (
    "sqrt", "cbrt", "exp", "expm1", "ln", "log10", "log2", "log1p", "sign", "sin", "cos", "tan",
    "cot", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "degrees",
    "radians", "power", "log", "atan2", "hypot", "factorial", "width_bucket",
)  # fmt: skip
FUNCTIONS: dict[str, Build] = {name: named(name) for name in _SAME}
