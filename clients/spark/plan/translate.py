"""A plan as a Spark DataFrame.

One job: `to_spark_frame`: walk the plan from the leaves up, each shared node once, and hand every
node to the file of its family. A shared node whose rows may come out otherwise a second time (a
limit, say) is kept by Spark until the run has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fabric.clients.spark.plan.aggregates import aggregated
from fabric.clients.spark.plan.joins import joined
from fabric.clients.spark.plan.operators import (
    different,
    exploded,
    filtered,
    limited,
    projected,
    sorted_by,
    stacked,
)
from fabric.clients.spark.plan.relation import Names, Relation
from fabric.clients.spark.plan.sources import FindHome, no_home, scanned
from fabric.clients.spark.plan.windows import windowed
from fabric.errors import FabricError, InternalError
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
from fabric.plan.schema import schema_of
from fabric.plan.walk import walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as SparkFrame
    from pyspark.sql import SparkSession

_OPEN = Limit | Aggregate | Window
"""Nodes whose rows may differ between two runs: which rows, their order, the last digit of a sum"""


def to_spark_frame(
    root: Node,
    spark: SparkSession,
    home: FindHome = no_home,
    kept: list[SparkFrame] | None = None,
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
    work = _Translation(spark, home)
    done: dict[int, Relation] = {}
    for node in walk(root):
        try:
            relation = work.node(node, [done[id(child)] for child in node.children])
        except FabricError as error:
            raise error.at(node=node.path) from None
        if uses[id(node)] > 1 and any(isinstance(part, _OPEN) for part in walk(node)):
            relation = relation.over(relation.df.persist())
            if kept is not None:
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


@dataclass(frozen=True, slots=True)
class _Translation:
    spark: SparkSession
    home: FindHome
    names: Names = field(default_factory=Names)

    def node(self, node: Node, below: list[Relation]) -> Relation:
        """One node over its translated inputs."""
        match node:
            case Scan():
                return scanned(node, self.spark, self.names, self.home)
            case Filter(predicate=predicate):
                return filtered(below[0], predicate)
            case Select() | WithColumns():
                return projected(node, below[0], schema_of(node))
            case Aggregate():
                return aggregated(node, below[0], schema_of(node))
            case Join():
                return joined(node, below[0], below[1], schema_of(node))
            case Window():
                return windowed(node, below[0], schema_of(node))
            case Explode():
                return exploded(node, below[0], schema_of(node))
            case _:
                return _whole(node, below)


def _whole(node: Node, below: list[Relation]) -> Relation:
    """Nodes that look at all rows; an exchange leaves it to Spark where rows are."""
    match node:
        case Sort():
            return sorted_by(node, below[0])
        case Limit():
            return limited(node, below[0])
        case Distinct():
            return different(below[0])
        case Union():
            return stacked(below, schema_of(node))
        case Exchange():
            return below[0]
        case _:
            raise InternalError(f"{type(node).__name__} has no place in a plan for Spark")
