"""Float values made equal as Spark has it.

One job: one NaN, one zero. DataFusion compares by bits in several places (NaNs of different sign or
payload, -0.0 in row keys), and answers maxima and drops row groups by Parquet statistics, which
leave NaN out; an expression that is not a plain column keeps it from doing so.
"""

from __future__ import annotations

import math
from itertools import count

import datafusion
import pyarrow as pa
from datafusion import functions as f
from pyarrow import types as t

from fabric.operators.expressions.arrow.lists.codes import canonical

_NUMBERS = count()


def opaque(expr: datafusion.Expr, dtype: pa.DataType) -> datafusion.Expr:
    """The same values, NaN canonical, in a form that no statistics apply to; floats only."""
    if not t.is_floating(dtype):
        return expr
    return f.nanvl(expr, datafusion.lit(pa.scalar(math.nan, dtype)))


def normalised(expr: datafusion.Expr, dtype: pa.DataType) -> datafusion.Expr:
    """The same values, NaN canonical and -0.0 as 0.0, inside lists and structs too."""
    if t.is_floating(dtype):
        return opaque(expr, dtype) + datafusion.lit(pa.scalar(0.0, dtype))
    if not (t.is_nested(dtype) and has_floats(dtype)):
        return expr
    name = f"fabric_one_zero_{next(_NUMBERS)}"
    return datafusion.udf(_inside, [dtype], dtype, "immutable", name)(expr)


def has_floats(dtype: pa.DataType) -> bool:
    """Whether values of `dtype` are or hold floats.

    >>> has_floats(pa.list_(pa.struct([("x", pa.float32())])))
    True
    """
    if t.is_nested(dtype):
        return any(has_floats(dtype.field(i).type) for i in range(dtype.num_fields))
    return bool(t.is_floating(dtype))


def _inside(array: pa.Array) -> pa.Array:
    """`array` with its floats made equal, however deep they lie."""
    dtype = array.type
    if t.is_floating(dtype):
        return canonical(array)
    if not has_floats(dtype):
        return array
    if t.is_struct(dtype):
        parts = [_inside(array.field(i)) for i in range(dtype.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(dtype), mask=array.is_null())
    own = array.buffers()[: _OWN_BUFFERS[dtype.id]]
    items = [_inside(array.values)]
    return pa.Array.from_buffers(dtype, len(array), own, offset=array.offset, children=items)


_OWN_BUFFERS = {
    pa.list_(pa.null()).id: 2, pa.large_list(pa.null()).id: 2, pa.list_(pa.null(), 1).id: 1,
    pa.list_view(pa.null()).id: 3, pa.large_list_view(pa.null()).id: 3,
}  # fmt: skip
"""How many buffers of a list are not its items'."""
