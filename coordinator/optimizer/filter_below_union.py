"""Filter every input of a union instead of its output.

    Filter(p)         Union
      Union       =>    Filter(p)
        X                 X
        Y               Filter(p)
                          Y

Valid because a union changes no row. Columns go by position, so `p` reads other names in `Y`. An
input whose types differ from the union's is cast there, and then nothing moves.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.optimizer.expressions import substitute
from fabric.plan.expr import Column, Expr
from fabric.plan.nodes import Filter, Node, Union
from fabric.plan.schema import schema_of


def filter_below_union(node: Node) -> Node:
    """Swap one pair; `node` itself when it does not match."""
    match node:
        case Filter(input=Union(inputs=inputs) as union, predicate=predicate):
            schema = schema_of(union)
            below: list[Node] = []
            for source in inputs:
                found = schema_of(source)
                if found.types != schema.types:
                    return node
                names: dict[str, Expr] = {
                    name: Column(other)
                    for name, other in zip(schema.names, found.names, strict=True)
                }
                part = substitute(predicate, names)
                below.append(replace(node, input=source, predicate=part))
            return replace(union, inputs=tuple(below))
        case _:
            return node
