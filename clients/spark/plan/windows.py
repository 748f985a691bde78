"""Window functions on Spark.

One job: a `Window` node. Partition keys, order keys and arguments are columns computed below, where
what can raise is guarded. Order keys of ranges with a distance are widened, so that the distance
never leaves their type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types as t
from pyspark.sql import Column as SparkColumn
from pyspark.sql import Window as SparkWindow
from pyspark.sql import WindowSpec
from pyspark.sql import functions as sf

from fabric.clients.spark.expressions import spark_type, to_spark
from fabric.clients.spark.plan.aggregates import aggregate_column, arguments, computed_args
from fabric.clients.spark.plan.operators import ordered
from fabric.clients.spark.plan.relation import Relation
from fabric.plan.expr import Agg, Cast, Frame, Literal, Over
from fabric.plan.nodes import Window
from fabric.plan.nodes.window import unaliased_over
from fabric.plan.schema import schema_of
from fabric.plan.types import numeric, plain


def windowed(node: Window, source: Relation) -> Relation:
    """`node` over `source`."""
    schema = schema_of(node)
    overs = [unaliased_over(expr) for expr in node.exprs]
    keys = overs[0].partition_by
    wanted = [(source.value(key), "partition") for key in keys]
    for over in overs:
        wanted += [(_order_value(over, i, source), "order") for i in range(len(over.order_by))]
        wanted += _arguments(over.input, source)
    computed, names = source.appended(wanted)
    fresh = iter(names[len(keys) :])
    partition = names[: len(keys)]
    made: list[SparkColumn | str] = [
        _Over(over, partition, fresh).column(field.type)
        for over, field in zip(overs, list(schema)[len(source.schema) :], strict=True)
    ]
    return computed.selected([*source.inner, *made], schema)


def _arguments(agg: Agg, source: Relation) -> list[tuple[SparkColumn, str]]:
    """The computed arguments; -0.0 is 0.0 in a set, whose members Spark tells apart by bits."""
    found = arguments(agg, source)
    if agg.function != "count_distinct" or agg.input is None:
        return found
    is_float = t.is_floating(plain(source.scope().type_of(agg.input)))
    return [(column + sf.lit(0.0), name) for column, name in found] if is_float else found


def _order_value(over: Over, index: int, source: Relation) -> SparkColumn:
    """An order key; in a range with a distance as wide as numbers of its kind get."""
    key = over.order_by[index].input
    frame = over.frame
    if frame is None or frame.unit == "rows" or not (frame.start or frame.end):
        return source.value(key)
    number = numeric(source.scope().type_of(key))
    return source.value(key, pa.decimal128(20, 0) if t.is_integer(number) else pa.float64())


@dataclass(frozen=True, slots=True)
class _Over:
    """One function: its node, the partition's columns, and the names of what was computed."""

    over: Over
    partition: Sequence[str]
    names: Iterator[str]

    def column(self, dtype: pa.DataType) -> SparkColumn:
        """The function over its window, in the Spark type of `dtype`."""
        agg, window = self.over.input, self._window()
        args = [sf.col(next(self.names)) for _ in computed_args(agg)]
        if agg.function not in _BUILD:
            return aggregate_column(agg, args, window).cast(spark_type(dtype))
        constants = [arg for arg in agg.args if isinstance(arg, Literal)]
        made = _BUILD[agg.function](*args, *constants, dtype).over(window)
        return made.cast(spark_type(dtype))

    def _window(self) -> WindowSpec:
        window = SparkWindow.partitionBy(*self.partition)
        if self.over.order_by:
            keys = [ordered(next(self.names), key) for key in self.over.order_by]
            window = window.orderBy(*keys)
        return window if self.over.frame is None else _framed(window, self.over.frame)


def _framed(window: WindowSpec, frame: Frame) -> WindowSpec:
    start = SparkWindow.unboundedPreceding if frame.start is None else frame.start
    end = SparkWindow.unboundedFollowing if frame.end is None else frame.end
    if frame.unit == "rows":
        return window.rowsBetween(start, end)
    return window.rangeBetween(start, end)


def _plain(name: str) -> Callable[..., SparkColumn]:
    return lambda _: sf.call_function(name)


def _shifted(name: str) -> Callable[..., SparkColumn]:
    """``lag`` and ``lead``: by an offset, with a default in the column's type."""

    def build(column: SparkColumn, *rest: Any) -> SparkColumn:
        *given, dtype = rest
        offset = sf.lit(given[0].value if given else 1)
        default = given[1] if len(given) > 1 else Literal(None, dtype)
        value = to_spark(Cast(default, dtype), pa.schema([]))
        return sf.call_function(name, column, offset, value)

    return build


def _placed(name: str) -> Callable[..., SparkColumn]:
    """``first_value``, ``last_value``: the constant says whether nulls are passed over."""

    def build(column: SparkColumn, *rest: Any) -> SparkColumn:
        return sf.call_function(name, column, sf.lit(bool(rest[:-1] and rest[0].value)))

    return build


def _nth(column: SparkColumn, n: Literal, *rest: Any) -> SparkColumn:
    return sf.nth_value(column, n.value, ignoreNulls=bool(rest[:-1] and rest[0].value))


_BUILD: dict[str, Callable[..., SparkColumn]] = {
    **{name: _plain(name)
       for name in ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist")},
    "ntile": lambda n, _: sf.ntile(n.value),
    "lag": _shifted("lag"),
    "lead": _shifted("lead"),
    "first_value": _placed("first_value"),
    "last_value": _placed("last_value"),
    "nth_value": _nth,
}  # fmt: skip
"""How Spark spells what only a window has: computed arguments, constants, the type wanted."""
