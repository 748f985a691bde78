"""A DataFusion scalar UDF that runs the Arrow definition of an expression.

One job: `wrapped`. A UDF whose expression can raise is volatile, so that the optimizer neither
folds nor moves nor repeats it; one that is total is immutable.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import datafusion
import pyarrow as pa

from fabric.operators.expressions.arrow import compile_expr
from fabric.plan.expr import Expr
from fabric.plan.schema import type_of

_NUMBERS = count()


def column(name: str) -> datafusion.Expr:
    """A column by its exact name, whatever it holds."""
    quoted = name.replace('"', '""')
    return datafusion.col(f'"{quoted}"')


def wrapped(
    expr: Expr, schema: pa.Schema, columns: frozenset[int], *, total: bool
) -> datafusion.Expr:
    """`expr` as one opaque call over the columns it reads.

    An expression without columns is given the first column, to learn the number of rows.
    """
    fields = [schema.field(index) for index in sorted(columns)] or [schema.field(0)]
    read = pa.schema(fields)
    function = datafusion.udf(
        _over(compile_expr(expr, read), read),
        [field.type for field in fields],
        type_of(expr, schema),
        "immutable" if total else "volatile",
        f"fabric_{next(_NUMBERS)}",
    )
    return function(*(column(field.name) for field in fields))


def _over(
    evaluate: Callable[[pa.RecordBatch], pa.Array], schema: pa.Schema
) -> Callable[..., pa.Array]:
    """The evaluator with a parameter per column, as DataFusion calls it."""

    def function(*arrays: pa.Array) -> pa.Array:
        return evaluate(pa.RecordBatch.from_arrays(list(arrays), schema=schema))

    return function
