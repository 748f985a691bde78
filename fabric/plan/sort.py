"""What the phases of a sort over several tasks put out.

One job: the columns of "sample" (the keys of some rows, and how many rows each stands for) and of
"place" (the rows, and the range each belongs to).
"""

from __future__ import annotations

import pyarrow as pa

from fabric.plan.infer import infer
from fabric.plan.nodes import Sort
from fabric.plan.types import plain

WEIGHT = "rows"


def phase_schema(node: Sort, schema: pa.Schema) -> pa.Schema:
    """The output of `node`, which samples or places, over input `schema`; raises `ExprFault`."""
    if node.phase == "place":
        return schema.append(pa.field(range_column(schema), pa.int32()))
    keys = [(f"{i}", plain(infer(key.input, schema))) for i, key in enumerate(node.keys)]
    return pa.schema([*keys, (WEIGHT, pa.int64())])


def range_column(schema: pa.Schema) -> str:
    """The name of the column that "place" appends: one that `schema` does not have."""
    name = "__range"
    while name in schema.names:
        name += "_"
    return name
