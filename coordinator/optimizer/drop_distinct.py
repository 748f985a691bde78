"""No search for different rows where all are different.

    Distinct             Aggregate(k; ...)        Distinct        Distinct
      Aggregate(k; ...) =>  X                       Distinct =>     X
        X                                             X

Valid because an aggregate puts out each combination of keys once, and its output has all keys;
filters, sorts and limits in between make no rows alike. Not with floats in the output of an
aggregate: distinct also makes 0.0 of -0.0.
"""

from __future__ import annotations

from fabric.coordinator.optimizer.nodes import exact_columns
from fabric.plan.nodes import Aggregate, Distinct, Filter, Limit, Node, Sort
from fabric.plan.schema import schema_of


def drop_distinct(node: Node) -> Node:
    """Drop one distinct; `node` itself when rows may be alike below it."""
    match node:
        case Distinct(input=source) if _all_differ(source):
            return source
        case _:
            return node


def _all_differ(node: Node) -> bool:
    while isinstance(node, Filter | Sort | Limit):
        node = node.input
    match node:
        case Distinct():
            return True
        case Aggregate(keys=keys, phase="single"):
            schema = schema_of(node)
            return len(exact_columns(schema)) == len(schema) or not keys
        case _:
            return False
