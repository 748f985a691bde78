"""Join by keys where a filter above asks for equal values.

    Filter(l = r and q)        Filter(q)
      Join(inner, cross)  =>     Join(inner; l = r)
        L                          L
        R                          R

Valid because an inner join puts out the pairs of rows for which its keys are equal. A cross join
becomes an inner one. The part must not be able to fail, and its columns not have one name on both
sides: as keys they would become one column.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.optimizer.expressions import conjuncts
from fabric.coordinator.optimizer.keys_from_condition import key_pair
from fabric.coordinator.optimizer.nodes import filtered
from fabric.plan.nodes import Filter, Join, Node
from fabric.plan.schema import schema_of
from fabric.plan.total import total


def filter_into_join(node: Node) -> Node:
    """Turn equalities into keys; `node` itself when there are none."""
    match node:
        case Filter(input=Join(how="inner" | "cross") as join, predicate=predicate):
            schema = schema_of(join)
            found, kept = [], []
            for part in conjuncts(predicate):
                pair = key_pair(part, join)
                if pair is not None and total(part, schema):
                    found.append(pair)
                else:
                    kept.append(part)
            if not found:
                return node
            keyed = replace(
                join,
                how="inner",
                left_keys=(*join.left_keys, *(left for left, _ in found)),
                right_keys=(*join.right_keys, *(right for _, right in found)),
            )
            return filtered(node, keyed, kept)
        case _:
            return node
