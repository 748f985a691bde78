"""Explode on Spark: one row for each element of a list."""

from __future__ import annotations

import pyarrow as pa

from fabric.clients.spark.plan.relation import Relation
from fabric.plan.nodes import Explode


def exploded(node: Explode, source: Relation, schema: pa.Schema) -> Relation:
    """`node` over `source`; `schema` is what it puts out."""
    from pyspark.sql import functions as sf

    index = source.schema.get_field_index(node.column)
    element, position = source.names.fresh(node.column), source.names.fresh("position")
    explode = sf.posexplode_outer if node.outer else sf.posexplode
    rows = source.df.select(
        *source.columns(), explode(source.column(node.column)).alias(position, element)
    )
    inner = [*source.inner[:index], element, *source.inner[index + 1 :]]
    if node.position:
        inner.append(position)
    return Relation(rows.select(*map(sf.col, inner)), schema, tuple(inner), source.names)
