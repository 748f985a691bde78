"""Answers of TPC-H made comparable across engines.

One job: `comparable`. Decimals of different scales, doubles and texts of any layout are made
doubles of 3 digits after the point and plain texts: a mean is a decimal of 6 digits in Spark and
here, a double in DuckDB.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

_DIGITS = 3


def comparable(table: pa.Table) -> pa.Table:
    """The same rows with columns that any engine's answer has alike."""
    return pa.table({name: _plain(table.column(name)) for name in table.column_names})


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if t.is_decimal(column.type) or t.is_floating(column.type):
        rounded = pc.round(column.cast(pa.float64()), _DIGITS)
        return pc.add(rounded, 0.0)
    if t.is_integer(column.type):
        return column.cast(pa.int64())
    if t.is_date(column.type):
        return column.cast(pa.date32())
    return column.cast(pa.string())
