"""Joins in DataFusion.

One job: key expressions in one type on both sides, NaN keys equal, and the smaller side as the hash
table. DataFusion builds on its left input unless statistics tell it otherwise; streams have none.
"""

from __future__ import annotations

from typing import Literal

import datafusion
import pyarrow as pa

from fabric.operators.fragment.keys import normalised
from fabric.operators.fragment.relation import Output, Relation, select
from fabric.plan.expr import Cast, Expr
from fabric.plan.join import key_types, output_columns
from fabric.plan.nodes import Join

_How = Literal["inner", "left", "right", "semi", "anti"]
_SWAPPED: dict[str, _How] = {"inner": "inner", "left": "right"}


def lower_join(node: Join, left: Relation, right: Relation, *, smaller_right: bool) -> Relation:
    """`node` over both sides; `smaller_right` says which to keep in memory without statistics."""
    if set(left.inner) & set(right.inner):
        right = right.renamed()
    types = key_types(node, left.schema, right.schema)
    left_df, left_on = _with_keys(left, node.left_keys, types)
    right_df, right_on = _with_keys(right, node.right_keys, types)
    if smaller_right and node.how in _SWAPPED:
        joined = _joined(right_df, left_df, right_on, left_on, _SWAPPED[node.how])
    else:
        joined = _joined(left_df, right_df, left_on, right_on, node.how)
    outputs = [
        Output((right if c.right else left).column(c.source), c.name, c.dtype)
        for c in output_columns(node, left.schema, right.schema)
    ]
    return select(joined, outputs, left.names)


def _joined(
    left: datafusion.DataFrame,
    right: datafusion.DataFrame,
    left_on: list[str],
    right_on: list[str],
    how: _How,
) -> datafusion.DataFrame:
    joined: datafusion.DataFrame = left.join(
        right, left_on=left_on, right_on=right_on, how=how, coalesce_duplicate_keys=False
    )
    return joined


def _with_keys(
    side: Relation, keys: tuple[Expr, ...], types: list[pa.DataType]
) -> tuple[datafusion.DataFrame, list[str]]:
    """The side with each key as a column of its own, beside the user's columns."""
    names = [side.names.fresh() for _ in keys]
    exprs = [
        normalised(side.expr(Cast(key, dtype)), dtype).alias(name)
        for key, dtype, name in zip(keys, types, names, strict=True)
    ]
    kept = [datafusion.col(name) for name in side.inner]
    return side.df.select(*kept, *exprs), names
