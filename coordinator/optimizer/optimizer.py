"""The order of the rules.

One job: `optimize`. Local rules run bottom-up until nothing changes; then columns are pruned, then
filters go into scans. A rule never takes apart a node that has another parent, because that parent
would need a copy: shared work stays shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from fabric.coordinator.optimizer.drop_select import drop_select
from fabric.coordinator.optimizer.filter_below_aggregate import filter_below_aggregate
from fabric.coordinator.optimizer.filter_below_distinct import filter_below_distinct
from fabric.coordinator.optimizer.filter_below_exchange import filter_below_exchange
from fabric.coordinator.optimizer.filter_below_join import filter_below_join
from fabric.coordinator.optimizer.filter_below_select import filter_below_select
from fabric.coordinator.optimizer.filter_below_sort import filter_below_sort
from fabric.coordinator.optimizer.filter_below_union import filter_below_union
from fabric.coordinator.optimizer.filter_below_with_columns import filter_below_with_columns
from fabric.coordinator.optimizer.filter_into_scan import filter_into_scan
from fabric.coordinator.optimizer.limit_below_select import limit_below_select
from fabric.coordinator.optimizer.merge_filters import merge_filters
from fabric.coordinator.optimizer.merge_limits import merge_limits
from fabric.coordinator.optimizer.merge_selects import merge_selects
from fabric.coordinator.optimizer.prune_columns import prune_columns
from fabric.errors import InternalError
from fabric.plan.nodes import Node, Plan
from fabric.plan.schema import schema_of
from fabric.plan.walk import rewrite, walk

Rule = Callable[[Node], Node]

PUSH: tuple[Rule, ...] = (
    filter_below_select,
    filter_below_with_columns,
    filter_below_exchange,
    filter_below_join,
    filter_below_union,
    filter_below_aggregate,
    filter_below_sort,
    filter_below_distinct,
    merge_limits,
    limit_below_select,
)
MERGE: tuple[Rule, ...] = (merge_filters, merge_selects, drop_select)
_ROUNDS_MAX = 100
_MOVES_MAX = 200


def optimize(plan: Plan) -> Plan:
    """A plan with the same rows, cheaper; `plan` itself when no rule fires."""
    root = apply(plan.root, (*PUSH, *MERGE))
    root = prune_columns(root)
    root = apply(root, (filter_into_scan, *MERGE))
    root = apply(prune_columns(root), MERGE)
    if not schema_of(root).equals(schema_of(plan.root)):
        raise InternalError("the optimizer changed the columns of a plan", node=plan.root.path)
    return plan if root is plan.root else replace(plan, root=root)


def apply(root: Node, rules: tuple[Rule, ...]) -> Node:
    """`rules` at every node, bottom-up, again until nothing changes."""
    for _ in range(_ROUNDS_MAX):
        before, root = root, _apply_once(root, rules)
        if root is before:
            return root
    return root


def _apply_once(root: Node, rules: tuple[Rule, ...]) -> Node:
    """One pass. What a rule moves down goes on moving, so one pass takes it a long way."""
    shared = _shared_paths(root)

    def fired(node: Node) -> Node:
        if any(child.path in shared for child in node.children):
            return node
        return next((new for rule in rules if (new := rule(node)) is not node), node)

    def settled(node: Node, n_moves: int = 0) -> Node:
        found = fired(node)
        if found is node or n_moves == _MOVES_MAX:
            return found
        return found.with_children(
            tuple(
                settled(child, n_moves + 1)
                if type(child) is type(node) and child.path == node.path
                else child
                for child in found.children
            )
        )

    return rewrite(root, settled)


def _shared_paths(root: Node) -> frozenset[str]:
    """Paths of nodes with more than one parent (or twice below one)."""
    nodes = list(walk(root))
    parents = Counter(id(child) for node in nodes for child in node.children)
    return frozenset(node.path for node in nodes if parents[id(node)] > 1)
