"""Structs: struct struct_field.

One job: those two. A struct that `struct` makes is never null, whatever is in it.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from fabric.operators.expressions.arrow.bound import Bound, Datum, Implementation, Request
from fabric.operators.expressions.arrow.casts.nested import struct_array
from fabric.operators.expressions.arrow.rows import arrays


def _struct(request: Request) -> Bound:
    """Names and values in turn."""

    def kernel(*values: Datum) -> pa.Array:
        return struct_array(arrays(*values)[1::2], request.result)

    return Bound(kernel, order="all")


def _field(request: Request) -> Bound:
    index = request.operands[0].get_field_index(request.constant(1))

    def kernel(value: pa.Array, _: Datum) -> pa.Array:
        return pc.struct_field(value, [index])

    return Bound(kernel, array=0)


IMPLEMENTATIONS: dict[str, Implementation] = {"struct": _struct, "struct_field": _field}
