"""Float values made equal as Spark has it.

One job: one NaN, one zero. DataFusion compares by bits in several places (NaNs of different sign or
payload, -0.0 in row keys), and answers maxima and drops row groups by Parquet statistics, which
leave NaN out; an expression that is not a plain column keeps it from doing so.
"""

from __future__ import annotations

import math

import datafusion
import pyarrow as pa
from datafusion import functions as f
from pyarrow import types as t


def opaque(expr: datafusion.Expr, dtype: pa.DataType) -> datafusion.Expr:
    """The same values, NaN canonical, in a form that no statistics apply to; floats only."""
    if not t.is_floating(dtype):
        return expr
    return f.nanvl(expr, datafusion.lit(pa.scalar(math.nan, dtype)))


def normalised(expr: datafusion.Expr, dtype: pa.DataType) -> datafusion.Expr:
    """The same values, NaN canonical and -0.0 as 0.0; other types than floats unchanged."""
    if not t.is_floating(dtype):
        return expr
    return opaque(expr, dtype) + datafusion.lit(pa.scalar(0.0, dtype))
