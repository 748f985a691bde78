"""Expressions of a plan as PySpark columns that mean the same; a family of functions a file."""

from __future__ import annotations

from fabric.clients.spark.expressions.build import spark_type
from fabric.clients.spark.expressions.translate import to_spark

__all__ = ["spark_type", "to_spark"]
