"""A tree of inner joins as what it joins: relations, equal keys, conditions.

One job: `chain_of` and `built`. Columns of all relations get names that differ from each other, so
that the relations can be joined in any order; a select on top gives the first names and order back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from fabric.coordinator.optimizer.expressions import conjuncts, named, passed_through, substitute
from fabric.coordinator.optimizer.nodes import condition_names, condition_schema, join_names
from fabric.plan.expr import Alias, Column, Expr, columns_of
from fabric.plan.node import remember_schema
from fabric.plan.nodes import Filter, Join, Node, Select
from fabric.plan.schema import schema_of
from fabric.plan.total import total

Names = dict[str, str]
"""Unique names by the names that a node puts out."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Two keys that must be equal, each over columns of some relations."""

    keys: tuple[Expr, Expr]
    relations: tuple[frozenset[int], frozenset[int]]


@dataclass(slots=True)
class Chain:
    """Relations with unique column names, what joins them, and the output in order.

    `joins` are the joins it was made of, children first.
    """

    relations: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    conditions: list[Expr] = field(default_factory=list)
    outputs: list[tuple[str, str]] = field(default_factory=list)
    joins: list[Join] = field(default_factory=list)
    owner: dict[str, int] = field(default_factory=dict)

    def reads(self, expr: Expr) -> frozenset[int]:
        """The relations that an expression reads."""
        return frozenset(self.owner[name] for name in columns_of(expr))


def is_link(node: Node) -> bool:
    """Whether a join may be taken apart: inner, not told how, and nothing in it can fail."""
    if not isinstance(node, Join) or node.how not in ("inner", "cross"):
        return False
    if node.strategy != "auto":
        return False
    left, right = schema_of(node.left), schema_of(node.right)
    return (
        all(total(key, left) for key in node.left_keys)
        and all(total(key, right) for key in node.right_keys)
        and (node.condition is None or total(node.condition, condition_schema(node)))
    )


def chain_of(root: Join, may_open: Callable[[Node], bool]) -> Chain:
    """The joins at and below `root` that `may_open` allows to take apart, `root` among them."""
    chain = Chain()
    taken: set[str] = set()

    def visit(node: Node) -> Names:
        if isinstance(node, Join) and (node is root or (may_open(node) and is_link(node))):
            return joined(node)
        if isinstance(node, Select) and may_open(node) and _leads_to_link(node, may_open):
            renamed = passed_through(node.exprs)
            below = visit(node.input)
            return {name: below[column.name] for name, column in renamed.items()}
        if isinstance(node, Filter) and may_open(node) and _leads_to_link(node, may_open):
            below = visit(node.input)
            chain.conditions += [_over(part, below) for part in conjuncts(node.predicate)]
            return below
        return relation(node)

    def joined(node: Join) -> Names:
        left, right = visit(node.left), visit(node.right)
        for one, other in zip(node.left_keys, node.right_keys, strict=True):
            keys = _over(one, left), _over(other, right)
            chain.edges.append(Edge(keys, (chain.reads(keys[0]), chain.reads(keys[1]))))
        if node.condition is not None:
            of_left, of_right = condition_names(node)
            known = {name: left[source] for name, source in of_left.items()}
            known.update({name: right[source] for name, source in of_right.items()})
            chain.conditions += [_over(part, known) for part in conjuncts(node.condition)]
        chain.joins.append(node)
        of_left, of_right = join_names(node)
        return {
            name: left[of_left[name]] if name in of_left else right[of_right[name]]
            for name in schema_of(node).names
        }

    def relation(node: Node) -> Names:
        number = len(chain.relations)
        names = {name: _free(name, number, taken) for name in schema_of(node).names}
        taken.update(names.values())
        chain.owner.update(dict.fromkeys(names.values(), number))
        if any(name != new for name, new in names.items()):
            exprs = tuple(named(Column(name), new) for name, new in names.items())
            node = Select(node, exprs, path=f"{node.path}/names_{number}")
        chain.relations.append(node)
        return names

    chain.outputs = list(visit(root).items())
    return chain


def _leads_to_link(node: Node, may_open: Callable[[Node], bool]) -> bool:
    """Whether only renaming selects and filters that can't fail are above a join of the chain."""
    while True:
        match node:
            case Select(input=source, exprs=exprs) if len(passed_through(exprs)) == len(exprs):
                node = source
            case Filter(input=source, predicate=p) if total(p, schema_of(source)):
                node = source
            case _:
                return isinstance(node, Join) and is_link(node) and may_open(node)
        if not may_open(node):
            return False


def _over(expr: Expr, names: Names) -> Expr:
    return substitute(expr, {name: Column(new) for name, new in names.items()})


def _free(name: str, number: int, taken: set[str]) -> str:
    new, again = name, number
    while new in taken:
        new = f"{name}#{again}"
        again += 1
    return new


def sides_of(join: Join) -> list[frozenset[str]]:
    """Output columns of each relation whose rows a filter above the join may be asked of first."""
    if join.how not in ("inner", "cross"):
        return [frozenset(schema_of(join.left).names)]
    chain = chain_of(join, lambda _: True)
    found: list[set[str]] = [set() for _ in chain.relations]
    for name, unique in chain.outputs:
        found[chain.owner[unique]].add(name)
    return [frozenset(names) for names in found]


Order = tuple["Order", "Order"] | int
"""A tree of pairs of relations, by their numbers."""


def built(chain: Chain, order: Order) -> Node:
    """The relations of `chain` joined in `order`, with the columns it had."""
    paths = iter([join.path for join in chain.joins])
    conditions = [(chain.reads(part), part) for part in chain.conditions]

    def make(part: Order) -> tuple[Node, frozenset[int]]:
        if isinstance(part, int):
            return chain.relations[part], frozenset((part,))
        (left, in_left), (right, in_right) = make(part[0]), make(part[1])
        pairs = list(pairs_between(chain.edges, in_left, in_right))
        join = Join(
            left,
            right,
            tuple(one for one, _ in pairs),
            tuple(other for _, other in pairs),
            "inner" if pairs else "cross",
            path=next(paths),
        )
        remember_schema(join, pa.schema([*schema_of(left), *schema_of(right)]))  # all names differ
        return _with_conditions(join, in_left | in_right, conditions), in_left | in_right

    joined, _ = make(order)
    exprs = tuple(Column(u) if name == u else Alias(Column(u), name) for name, u in chain.outputs)
    select = Select(joined, exprs, path=f"{chain.joins[-1].path}/columns")
    remember_schema(select, schema_of(chain.joins[-1]))
    return select


def _with_conditions(
    join: Join, inside: frozenset[int], conditions: list[tuple[frozenset[int], Expr]]
) -> Node:
    """The join with a filter for the conditions that can be asked now."""
    now = [pair for pair in conditions if pair[0] <= inside]
    for pair in now:
        conditions.remove(pair)
    node: Node = join
    for number, (_, part) in enumerate(now):
        node = Filter(node, part, path=f"{join.path}/where_{number + 1}")
        remember_schema(node, schema_of(join))
    return node


def pairs_between(
    edges: Sequence[Edge], left: frozenset[int], right: frozenset[int]
) -> Iterator[tuple[Expr, Expr]]:
    """The keys that join two sets of relations, the left one first."""
    for edge in edges:
        (one, other), (of_one, of_other) = edge.keys, edge.relations
        if of_one <= left and of_other <= right:
            yield one, other
        elif of_one <= right and of_other <= left:
            yield other, one
