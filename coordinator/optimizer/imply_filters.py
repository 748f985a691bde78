"""What alternatives say about one side, said to that side.

    Filter((l = 1 and r = 2) or (l = 3 and r = 4))        Filter((...) or (...)
      Join                                          =>           and (l = 1 or l = 3)
        L                                                        and (r = 2 or r = 4))
        R                                                 Join

Valid because a row for which one alternative is true has that alternative's parts true. The new
parts then go below the join, where they take rows away early. Only parts that can't fail. It runs
once over a plan, since what it adds moves away.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.optimizer.expressions import conjoin, conjuncts, fits
from fabric.coordinator.optimizer.join_chain import sides_of
from fabric.plan.expr import Call, Expr, columns_of
from fabric.plan.nodes import Filter, Join, Node
from fabric.plan.schema import schema_of
from fabric.plan.total import total


def imply_filters(node: Node) -> Node:
    """Add what is implied; `node` itself when nothing is."""
    match node:
        case Filter(input=Join(how="inner" | "cross" | "semi" | "left") as join):
            parts = conjuncts(node.predicate)
            schema = schema_of(join)
            sides = sides_of(join)
            added: list[Expr] = []
            for part in parts:
                choices = _alternatives(part)
                if len(choices) > 1 and total(part, schema):
                    found = [_implied(choices, names) for names in sides]
                    added += [one for one in found if one is not None]
            merged = conjoin([*parts, *added])
            return replace(node, predicate=merged) if added and fits(merged) else node
        case _:
            return node


def _alternatives(part: Expr) -> list[Expr]:
    """The parts of which one must be true."""
    found: list[Expr] = []
    stack = [part]
    while stack:
        match stack.pop():
            case Call(function="or", args=args):
                stack.extend(reversed(args))
            case other:
                found.append(other)
    return found


def _implied(choices: list[Expr], names: frozenset[str]) -> Expr | None:
    """What all alternatives together say about columns of one side, or None."""
    of_side: list[Expr] = []
    n_cut = 0
    for choice in choices:
        parts = conjuncts(choice)
        mine = [part for part in parts if columns_of(part) and columns_of(part) <= names]
        if not mine:
            return None
        n_cut += len(mine) < len(parts)
        of_side.append(conjoin(mine))
    if not n_cut:
        return None  # the whole goes there by itself
    found = of_side[0]
    for other in of_side[1:]:
        found = Call("or", (found, other))
    return found
