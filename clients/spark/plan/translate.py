"""A plan as a Spark DataFrame.

One job: `to_spark_frame`: walk the plan from the leaves up, each shared node once, and hand every
node to the file of its family. A shared node whose rows may come out otherwise a second time (a
limit, say) is kept by Spark until the run has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame as SparkFrame
from pyspark.sql import SparkSession

from fabric.clients.spark.plan.aggregates import aggregated
from fabric.clients.spark.plan.joins import joined
from fabric.clients.spark.plan.operators import (
    by_operator,
    different,
    exploded,
    filtered,
    limited,
    projected,
    sorted_by,
    stacked,
)
from fabric.clients.spark.plan.relation import Names, Relation
from fabric.clients.spark.plan.sources import FindHome, scanned
from fabric.clients.spark.plan.windows import windowed
from fabric.errors import FabricError, InternalError
from fabric.plan.node import Unary
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Exchange,
    Explode,
    Filter,
    Join,
    Limit,
    Node,
    Scan,
    Select,
    Sort,
    Union,
    Window,
    WithColumns,
)
from fabric.plan.walk import walk

_NODES: dict[type[Node], Callable[..., Relation]] = {
    Filter: lambda node, source: filtered(source, node.predicate),
    Select: projected, WithColumns: projected, Aggregate: aggregated, Join: joined,
    Window: windowed, Explode: exploded, Sort: sorted_by, Limit: limited, Union: stacked,
    Distinct: lambda _, source: different(source),
    Exchange: lambda _, source: source,
}  # fmt: skip
"""How a node is translated, given its translated inputs; an exchange leaves to Spark where rows
are."""
_OPEN = Limit | Aggregate | Window
"""Nodes whose rows may differ between two runs: which rows, their order, the last digit of a sum"""


def to_spark_frame(
    root: Node, spark: SparkSession, home: FindHome, kept: list[SparkFrame]
) -> Relation:
    """The checked plan under `root` (not a sink) as a frame of `spark`, which `prepared` made.

    Parameters
    ----------
    home
        Gives the fabric of the plan's datasets; asked only if the plan has one.
    kept
        Takes the frames that Spark keeps for nodes with two parents; see `kept_frames`.

    Raises
    ------
    FabricError
        A source can't be read, or Spark has no such type; with the path of the node.
    """
    uses = Counter(id(child) for node in walk(root) for child in node.children)
    names = Names()
    done: dict[int, Relation] = {}
    for node in walk(root):
        try:
            if isinstance(node, Scan):
                relation = scanned(node, spark, names, home)
            elif type(node) in _NODES:
                relation = _NODES[type(node)](node, *(done[id(child)] for child in node.children))
            elif isinstance(node, Unary) and node.LOOKS_AT_ROWS:
                relation = by_operator(node, done[id(node.input)])
            else:
                raise InternalError(f"{type(node).__name__} has no place in a plan for Spark")
        except FabricError as error:
            raise error.at(node=node.path) from None
        if uses[id(node)] > 1 and any(isinstance(part, _OPEN) for part in walk(node)):
            relation = relation.over(relation.df.persist())
            kept.append(relation.df)
        done[id(node)] = relation
    return done[id(root)]


@contextmanager
def kept_frames() -> Iterator[list[SparkFrame]]:
    """For `to_spark_frame`'s `kept`: Spark lets go of them at the end."""
    frames: list[SparkFrame] = []
    try:
        yield frames
    finally:
        for frame in frames:
            frame.unpersist()
