"""A DataFusion scalar UDF that runs the Arrow definition of an expression.

One job: `wrapped`. A UDF whose expression can raise is volatile, so that the optimizer neither
folds nor repeats it; one that is total is immutable.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import datafusion
import pyarrow as pa

from fabric.operators.expressions.arrow import compile_expr
from fabric.operators.expressions.arrow.lazy import Compiled
from fabric.plan.expr import Expr
from fabric.plan.schema import type_of

_NUMBERS = count()


def column(name: str) -> datafusion.Expr:
    """A column by its exact name, whatever it holds."""
    quoted = name.replace('"', '""')
    return datafusion.col(f'"{quoted}"')


def wrapped(
    expr: Expr, schema: pa.Schema, names: Sequence[str], compiled: Compiled
) -> datafusion.Expr:
    """`expr` as one opaque call over the columns it reads.

    `names` are those of the columns in the data frame. An expression without columns is given the
    first column, to learn the number of rows.
    """
    places = sorted(compiled.columns) or [0]
    fields = [schema.field(place) for place in places]
    read = pa.schema(fields)
    evaluate = compile_expr(expr, read)

    def function(*arrays: pa.Array) -> pa.Array:
        return evaluate(pa.RecordBatch.from_arrays(list(arrays), schema=read))

    udf = datafusion.udf(
        function,
        [field.type for field in fields],
        type_of(expr, schema),
        "immutable" if compiled.total else "volatile",
        f"fabric_{next(_NUMBERS)}",
    )
    return udf(*(column(names[place]) for place in places))


def held(predicate: datafusion.Expr) -> datafusion.Expr:
    """The same predicate as a call that says it is volatile, so that no rule moves it down.

    DataFusion 55 forgets about volatile columns when it moves a plain filter on one below the
    projection that computes it; a filter that is volatile itself stays.
    """
    udf = datafusion.udf(
        lambda values: values, [pa.bool_()], pa.bool_(), "volatile", f"fabric_{next(_NUMBERS)}"
    )
    return udf(predicate)
