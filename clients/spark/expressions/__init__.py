"""Expressions of a plan as PySpark columns that mean the same; a family of functions a file."""

from __future__ import annotations

from fabric.clients.spark.expressions.translate import to_spark
from fabric.clients.spark.expressions.types import spark_type

__all__ = ["spark_type", "to_spark"]
