"""Functions of lists and structs on Spark: list_get … list_zip, struct, struct_field.

One job: the forms of functions that Spark has under no name of the same meaning. Sums, means, any
and all are folds there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from fabric.clients.spark.expressions.build import Build, TypedBuild, operator, spark_type
from fabric.plan.functions.registry import Signature


def _get(values: SparkColumn, position: SparkColumn) -> SparkColumn:
    from_end = sf.when(position < 0, sf.try_element_at(values, position))
    return from_end.otherwise(sf.get(values, position))


def _item(values: SparkColumn, position: SparkColumn) -> SparkColumn:
    """Spark counts from 1; the largest position of all lies outside of any list."""
    from_one = sf.least(position, sf.lit((1 << 31) - 2)) + 1
    place = sf.when(position < 0, position).otherwise(from_one)
    return sf.when(position.isNotNull(), sf.element_at(values, place))


def _sort(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    """Spark's two functions put nulls first when ascending or last; nulls first, descending is the
    values in order behind as many nulls as there are."""
    _, descending, nulls_last = values
    if not descending:
        return sf.array_sort(args[0]) if nulls_last else sf.sort_array(args[0])
    ordered = sf.sort_array(args[0], asc=False)
    if nulls_last:
        return ordered
    nulls = sf.filter(args[0], lambda value: value.isNull())
    return sf.concat(nulls, sf.array_compact(ordered))


def _sum(args: Sequence[SparkColumn], types: Signature) -> SparkColumn:
    result = spark_type(types.result)
    zero = sf.lit(0).cast(result)
    return sf.aggregate(args[0], zero, lambda a, b: (a + sf.coalesce(b, zero)).cast(result))


def _mean(values: SparkColumn) -> SparkColumn:
    known = sf.array_compact(values)
    total = sf.aggregate(known, sf.lit(0.0), lambda a, b: a + b)
    return sf.when(sf.array_size(known) > 0, total / sf.array_size(known))


def _concat_list(args: Sequence[SparkColumn], types: Signature) -> SparkColumn:
    """What is no list is a list of one."""
    of_types = zip(args, types.args, strict=True)
    return sf.concat(*(arg if t == types.result else sf.array(arg) for arg, t in of_types))


def _struct(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    parts = zip(values[::2], args[1::2], strict=True)
    return sf.named_struct(*(part for name, arg in parts for part in (sf.lit(name), arg)))


FUNCTIONS: dict[str, Build] = {
    "list_get": operator(_get),
    "list_item": operator(_item),
    "list_sort": _sort,
    "list_mean": operator(_mean),
    "list_any": operator(lambda values: sf.exists(sf.array_compact(values), lambda one: one)),
    "list_all": operator(lambda values: sf.forall(sf.array_compact(values), lambda one: one)),
    "list_zip": lambda args, _: sf.arrays_zip(*args[1::2]),
    "struct": _struct,
    "struct_field": lambda args, values: args[0].getField(values[1]),
}
TYPED: dict[str, TypedBuild] = {"list_sum": _sum, "concat_list": _concat_list}
"""Functions that must know types."""
RETYPED = ("array", "list_zip")
"""Spark numbers the fields of zipped lists; the list of nothing is of another type."""
