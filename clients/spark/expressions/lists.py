"""Functions of lists and structs on Spark: list_get … list_zip, struct, struct_field.

One job: the forms of functions that Spark has under no name of the same meaning. Sums, means, any
and all are folds there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fabric.clients.spark.expressions.build import Build, TypedBuild, spark_type
from fabric.plan.functions.registry import Signature

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


def _get(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    values, position = args
    from_end = sf.when(position < 0, sf.try_element_at(values, position))
    return from_end.otherwise(sf.get(values, position))


def _item(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
    """Spark counts from 1; the largest position of all lies outside of any list."""
    from pyspark.sql import functions as sf

    values, position = args
    from_one = sf.least(position, sf.lit((1 << 31) - 2)) + 1
    place = sf.when(position < 0, position).otherwise(from_one)
    return sf.when(position.isNotNull(), sf.element_at(values, place))


def _sort(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    """Spark's two functions put nulls first when ascending or last; nulls first, descending is the
    values in order behind as many nulls as there are."""
    from pyspark.sql import functions as sf

    _, descending, nulls_last = values
    if not descending:
        return sf.array_sort(args[0]) if nulls_last else sf.sort_array(args[0])
    ordered = sf.sort_array(args[0], asc=False)
    if nulls_last:
        return ordered
    nulls = sf.filter(args[0], lambda value: value.isNull())
    return sf.concat(nulls, sf.array_compact(ordered))


def _sum(args: Sequence[SparkColumn], types: Signature) -> SparkColumn:
    from pyspark.sql import functions as sf

    result = spark_type(types.result)
    zero = sf.lit(0).cast(result)
    return sf.aggregate(args[0], zero, lambda a, b: (a + sf.coalesce(b, zero)).cast(result))


def _mean(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    known = sf.array_compact(args[0])
    total = sf.aggregate(known, sf.lit(0.0), lambda a, b: a + b)
    return sf.when(sf.array_size(known) > 0, total / sf.array_size(known))


def _any(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    return sf.exists(sf.array_compact(args[0]), lambda value: value)


def _all(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    return sf.forall(sf.array_compact(args[0]), lambda value: value)


def _zip(args: Sequence[SparkColumn], _: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    return sf.arrays_zip(*args[1::2])


def _concat_list(args: Sequence[SparkColumn], types: Signature) -> SparkColumn:
    """What is no list is a list of one."""
    from pyspark.sql import functions as sf

    of_types = zip(args, types.args, strict=True)
    return sf.concat(*(arg if t == types.result else sf.array(arg) for arg, t in of_types))


def _struct(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    from pyspark.sql import functions as sf

    parts = zip(values[::2], args[1::2], strict=True)
    return sf.named_struct(*(part for name, arg in parts for part in (sf.lit(name), arg)))


def _field(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    return args[0].getField(values[1])


FUNCTIONS: dict[str, Build] = {
    "list_get": _get,
    "list_item": _item,
    "list_sort": _sort,
    "list_mean": _mean,
    "list_any": _any,
    "list_all": _all,
    "list_zip": _zip,
    "struct": _struct,
    "struct_field": _field,
}
TYPED: dict[str, TypedBuild] = {"list_sum": _sum, "concat_list": _concat_list}
"""Functions that must know types."""
RETYPED = ("array", "list_zip")
"""Spark numbers the fields of zipped lists; the list of nothing is of another type."""
