"""What exploding a list column puts out, and which columns can't be.

One job: the output columns of an `Explode` node.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from fabric.plan.expr import Column
from fabric.plan.faults import quoted
from fabric.plan.infer import infer
from fabric.plan.mend import free_name, mended
from fabric.plan.nodes import Explode
from fabric.plan.types import is_list, plain


def explode_columns(node: Explode, schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Names and types of the output; raises `PlanError` and `ExprFault`."""
    dtype = infer(Column(node.column), schema)
    if not is_list(dtype):
        lists = [field.name for field in schema if is_list(field.type)]
        line = replace(node, column=lists[0]) if len(lists) == 1 else None
        raise mended(f"explode needs a list, and {quoted(node.column)} is {dtype}", line)
    element = plain(dtype).value_type
    columns = [(f.name, element if f.name == node.column else f.type) for f in schema]
    if not node.position:
        return columns
    if node.position in schema.names:
        line = replace(node, position=free_name(node.position, schema.names))
        raise mended(f"there is a column {quoted(node.position)} already", line)
    return [*columns, (node.position, pa.int32())]
