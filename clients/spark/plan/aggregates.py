"""Group by on Spark.

One job: an `Aggregate` node, and each aggregate function as a Spark column over columns that were
computed below (`aggregate_column`, which windows use too). Keys and arguments are computed in a
projection of their own, where what can raise is guarded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa
from pyarrow import types as t
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf
from pyspark.sql.window import WindowSpec

from fabric.clients.spark.expressions import spark_type
from fabric.clients.spark.plan.relation import Relation
from fabric.plan.expr import Agg, Expr, Literal, output_name
from fabric.plan.functions import AGGREGATES
from fabric.plan.nodes import Aggregate
from fabric.plan.nodes.aggregate import unaliased
from fabric.plan.schema import schema_of
from fabric.plan.types import numeric, plain

_ACCURACY = 10_000
_F64 = pa.float64()


def aggregated(node: Aggregate, source: Relation) -> Relation:
    """`node` over `source`."""
    schema = schema_of(node)
    aggs = [unaliased(expr) for expr in node.aggs]
    types = schema.types
    n_keys = len(node.keys)
    wanted = [(source.value(key), output_name(key)) for key in node.keys]
    wanted += [argument for agg in aggs for argument in arguments(agg, source)]
    computed, names = source.appended(wanted)
    inputs = iter(names[n_keys:])
    columns = [
        aggregate_column(agg, [sf.col(next(inputs)) for _ in computed_args(agg)]).cast(
            spark_type(dtype)
        )
        for agg, dtype in zip(aggs, types[n_keys:], strict=True)
    ]
    inner = [source.names.fresh(name) for name in schema.names]
    named = [column.alias(name) for column, name in zip(columns, inner[n_keys:], strict=True)]
    keys = [
        sf.col(name).alias(label)
        for name, label in zip(names[:n_keys], inner[:n_keys], strict=True)
    ]
    if not named:
        df = computed.df.select(*keys).distinct()
    elif keys:
        df = computed.df.groupBy(*keys).agg(*named)
    else:
        df = computed.df.agg(*named)
    return Relation(df, schema, tuple(inner), source.names)


def computed_args(agg: Agg) -> list[Expr]:
    """The arguments that are computed for each row: all but the constants at the end."""
    inputs = [] if agg.input is None else [agg.input]
    return inputs + [arg for arg in agg.args if not isinstance(arg, Literal)]


def arguments(agg: Agg, source: Relation) -> list[tuple[SparkColumn, str]]:
    """Columns over `source` for `computed_args`, each in the type the function computes in."""
    found = []
    for arg in computed_args(agg):
        dtype = _argument_type(agg.function, source.scope().type_of(arg))
        found.append((source.value(arg, dtype), output_name(arg)))
    return found


def _argument_type(function: str, dtype: pa.DataType) -> pa.DataType | None:
    """What an argument is cast to before; None leaves it."""
    number = _F64 if t.is_null(plain(dtype)) else numeric(dtype)
    if function in AGGREGATES and AGGREGATES[function].of_floats:
        return _F64
    if function in ("bool_and", "bool_or", "count_if"):
        return pa.bool_()
    return number if function in ("sum", "mean") else None


def aggregate_column(
    agg: Agg, args: Sequence[SparkColumn], window: WindowSpec | None = None
) -> SparkColumn:
    """`agg` of computed `args`, over a group or a `window`, in whatever type Spark gives it."""

    def over(made: SparkColumn) -> SparkColumn:
        return made if window is None else made.over(window)

    constants = [arg.value for arg in agg.args if isinstance(arg, Literal)]
    if agg.function == "count_distinct" and window is not None:  # no DISTINCT over windows
        return sf.size(over(sf.collect_set(args[0])))
    if agg.function == "quantile" and constants[1:] not in ([], ["linear"]):
        return _actual_quantile(over(sf.collect_list(args[0])), *constants)
    return over(FORMS[agg.function](*args, *constants))


def _actual_quantile(values: SparkColumn, fraction: float, how: str) -> SparkColumn:
    """Spark's own is linear between two values; here they are picked from all of them."""
    in_order = sf.array_sort(values)
    position = (sf.size(values) - 1) * sf.lit(float(fraction))
    before, after = sf.floor(position), sf.ceil(position)

    def at(index: SparkColumn) -> SparkColumn:
        return sf.get(in_order, index.cast("int"))

    if how == "midpoint":
        return (at(before) + at(after)) / 2
    return at({"lower": before, "higher": after, "nearest": sf.floor(position + 0.5)}[how])


def _percentile(column: SparkColumn, fraction: float, how: str = "linear") -> SparkColumn:
    return sf.percentile(column, sf.lit(float(fraction)))


FORMS: dict[str, Callable[..., SparkColumn]] = {
    **{
        name: partial(sf.call_function, known.spark)
        for name, known in AGGREGATES.items()
        if known.spark
    },
    "count": lambda *args: sf.count(*(args or (sf.lit(1),))),
    "count_distinct": sf.count_distinct,
    "median": lambda column: _percentile(column, 0.5),  # Spark's takes no order over a window
    "quantile": _percentile,
    "approx_quantile": lambda column, fraction: sf.percentile_approx(
        column, float(fraction), _ACCURACY
    ),
    "any_value": lambda column: sf.any_value(column, sf.lit(True)),
}
"""How Spark spells each aggregate: computed arguments first, then the constants."""
