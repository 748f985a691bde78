"""Comparison, boolean logic and null tests on Spark.

One job: their spelling in Spark.
"""

from __future__ import annotations

from fabric.clients.spark.expressions.build import Build, named, operator

FUNCTIONS: dict[str, Build] = {
    "eq": operator(lambda a, b: a == b),
    "ne": operator(lambda a, b: a != b),
    "lt": operator(lambda a, b: a < b),
    "le": operator(lambda a, b: a <= b),
    "gt": operator(lambda a, b: a > b),
    "ge": operator(lambda a, b: a >= b),
    "eq_null_safe": operator(lambda a, b: a.eqNullSafe(b)),
    "and": operator(lambda a, b: a & b),
    "or": operator(lambda a, b: a | b),
    "not": operator(lambda a: ~a),
    "is_null": operator(lambda a: a.isNull()),
    "is_not_null": operator(lambda a: a.isNotNull()),
    "is_nan": named("isnan"),
    "coalesce": named("coalesce"),
    "greatest": named("greatest"),
    "least": named("least"),
}
