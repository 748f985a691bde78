"""The order of the rules.

One job: `optimize`. Conditions are simplified and filters and limits moved down until nothing
changes; joins are put in order; columns pruned; filters, limits and answers taken to the scans;
what is left twice is shared. A rule never takes apart a node that has another parent, because that
parent would need a copy: shared work stays shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from fabric.coordinator.optimizer.aggregate_from_statistics import aggregate_from_statistics
from fabric.coordinator.optimizer.condition_below_join import condition_below_join
from fabric.coordinator.optimizer.drop_distinct import drop_distinct
from fabric.coordinator.optimizer.drop_select import drop_select
from fabric.coordinator.optimizer.drop_sort import drop_sort
from fabric.coordinator.optimizer.filter_below_aggregate import filter_below_aggregate
from fabric.coordinator.optimizer.filter_below_distinct import filter_below_distinct
from fabric.coordinator.optimizer.filter_below_exchange import filter_below_exchange
from fabric.coordinator.optimizer.filter_below_explode import filter_below_explode
from fabric.coordinator.optimizer.filter_below_join import filter_below_join
from fabric.coordinator.optimizer.filter_below_select import filter_below_select
from fabric.coordinator.optimizer.filter_below_sort import filter_below_sort
from fabric.coordinator.optimizer.filter_below_union import filter_below_union
from fabric.coordinator.optimizer.filter_below_window import filter_below_window
from fabric.coordinator.optimizer.filter_below_with_columns import filter_below_with_columns
from fabric.coordinator.optimizer.filter_into_join import filter_into_join
from fabric.coordinator.optimizer.filter_into_scan import filter_into_scan
from fabric.coordinator.optimizer.fold_constants import Evaluate, fold_constants
from fabric.coordinator.optimizer.imply_filters import imply_filters
from fabric.coordinator.optimizer.keys_from_condition import keys_from_condition
from fabric.coordinator.optimizer.limit_below_select import limit_below_select
from fabric.coordinator.optimizer.limit_into_scan import limit_into_scan
from fabric.coordinator.optimizer.merge_filters import merge_filters
from fabric.coordinator.optimizer.merge_limits import merge_limits
from fabric.coordinator.optimizer.merge_selects import merge_selects
from fabric.coordinator.optimizer.merge_with_columns import merge_with_columns
from fabric.coordinator.optimizer.outer_to_inner import outer_to_inner
from fabric.coordinator.optimizer.prune_columns import prune_columns
from fabric.coordinator.optimizer.reorder_joins import reorder_joins
from fabric.coordinator.optimizer.rule import PlanRule, Rule
from fabric.coordinator.optimizer.share_subplans import share_subplans
from fabric.coordinator.optimizer.simplify_filter import simplify_filter
from fabric.coordinator.optimizer.simplify_logic import simplify_logic
from fabric.coordinator.optimizer.smaller_side_right import smaller_side_right
from fabric.coordinator.optimizer.trace import Fired
from fabric.errors import InternalError
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    Node,
    Plan,
    Scan,
    Select,
    Sort,
    WithColumns,
)
from fabric.plan.schema import is_known, remember, schema_of
from fabric.plan.statistics import NOTHING_KNOWN, Statistics
from fabric.plan.walk import walk

Rules = Mapping[type, tuple[Rule, ...]]
"""Rules by the kind of node they look at."""

SIMPLIFY: Rules = {
    Filter: (simplify_logic, simplify_filter),
    **dict.fromkeys((Scan, Join, Select, WithColumns, Aggregate, Sort), (simplify_logic,)),
}
IMPLY: Rules = {Filter: (imply_filters,)}
PUSH: Rules = {
    Filter: (
        merge_filters,
        outer_to_inner,
        filter_into_join,
        filter_below_select,
        filter_below_with_columns,
        filter_below_exchange,
        filter_below_join,
        filter_below_union,
        filter_below_aggregate,
        filter_below_window,
        filter_below_explode,
        filter_below_sort,
        filter_below_distinct,
    ),
    Join: (keys_from_condition, condition_below_join),
    Limit: (merge_limits, limit_below_select),
    Select: (merge_selects, drop_select),
    WithColumns: (merge_with_columns,),
    Distinct: (drop_distinct,),
}
MERGE: Rules = {Filter: (merge_filters,), Select: (merge_selects, drop_select)}
INTO_SCAN: Rules = {**MERGE, Filter: (merge_filters, filter_into_scan)}
_ROUNDS_MAX = 100
_MOVES_MAX = 200


def optimize(
    plan: Plan,
    statistics: Statistics = NOTHING_KNOWN,
    *,
    evaluate: Evaluate | None = None,
    fired: list[Fired] | None = None,
) -> Plan:
    """A plan with the same rows, cheaper.

    Parameters
    ----------
    plan
        Checked.
    statistics
        What is known of its sources.
    evaluate
        Computes constants; without it none are folded.
    fired
        Takes in what each rule did, in order.

    Returns
    -------
    Plan
        `plan` itself when no rule fires.
    """
    run = _Run(plan.root, [] if fired is None else fired)
    pinned = frozenset(path for path, _ in plan.config)
    run.everywhere(SIMPLIFY if evaluate is None else _with_constants(evaluate))
    run.once(IMPLY)
    run.everywhere(PUSH)
    run.whole(drop_sort)
    for rule in (reorder_joins, smaller_side_right):
        run.whole(partial(rule, statistics, pinned))
    run.everywhere(PUSH)
    run.whole(prune_columns)
    run.everywhere(INTO_SCAN)
    run.whole(prune_columns)
    run.everywhere({**MERGE, Aggregate: (partial(aggregate_from_statistics, statistics),)})
    run.whole(limit_into_scan)
    run.whole(share_subplans)
    if not schema_of(run.root).equals(schema_of(plan.root)):
        raise InternalError("the optimizer changed the columns of a plan", node=plan.root.path)
    return plan if run.root is plan.root else replace(plan, root=run.root)


def _with_constants(evaluate: Evaluate) -> Rules:
    fold = partial(fold_constants, evaluate)
    return {kind: (fold, *rules) for kind, rules in SIMPLIFY.items()}


class _Run:
    """A plan on its way, and what was done to it."""

    def __init__(self, root: Node, fired: list[Fired]) -> None:
        self.root = root
        self._fired = fired

    def whole(self, rule: PlanRule) -> None:
        """One look at the whole plan."""
        name = name_of(rule)

        def note(before: Node, after: Node) -> Node:
            self._fired.append(Fired(name, before, after))
            return after

        self.root = rule(self.root, note)

    def everywhere(self, rules: Rules) -> None:
        """`rules` at every node, bottom-up, again until nothing changes."""
        self.root = apply(self.root, rules, self._fired)

    def once(self, rules: Rules) -> None:
        """`rules` at every node, a single time."""
        self.root = _apply_once(self.root, rules, self._fired)


def name_of(rule: object) -> str:
    """What a rule is called in `explain`."""
    named = rule.func if isinstance(rule, partial) else rule
    return str(getattr(named, "__name__", type(named).__name__))


def apply(root: Node, rules: Rules, fired: list[Fired]) -> Node:
    """`rules` at every node, bottom-up, again until nothing changes."""
    for _ in range(_ROUNDS_MAX):
        before, root = root, _apply_once(root, rules, fired)
        if root is before:
            return root
    return root


def _apply_once(root: Node, rules: Rules, fired: list[Fired]) -> Node:
    """One pass. What a rule moves down goes on moving, so one pass takes it a long way."""
    order = list(walk(root))
    if not any(type(node) in rules for node in order):
        return root
    shared = _shared_paths(order)

    def changed(node: Node) -> Node:
        mine = rules.get(type(node))
        if mine is None or (shared and any(child.path in shared for child in node.children)):
            return node
        for rule in mine:
            if (new := rule(node)) is not node:
                fired.append(Fired(name_of(rule), node, new))
                return alike(node, new)
        return node

    def settled(node: Node, n_moves: int = 0) -> Node:
        found = changed(node)
        if found is node or n_moves == _MOVES_MAX:
            return found
        below = tuple(
            settled(child, n_moves + 1)
            if type(child) is type(node) and child.path == node.path
            else child
            for child in found.children
        )
        return alike(found, found.with_children(below))

    done: dict[int, Node] = {}
    for node in order:
        children = tuple(done[id(child)] for child in node.children)
        done[id(node)] = settled(alike(node, node.with_children(children)))
    return done[id(root)]


def alike(before: Node, after: Node) -> Node:
    """`after`, which puts out the columns of `before`: a rule changes none of them."""
    if after is not before and not is_known(after) and is_known(before):
        remember(after, schema_of(before))
    return after


def _shared_paths(order: list[Node]) -> frozenset[str]:
    """Paths of nodes with more than one parent (or twice below one)."""
    parents = Counter(id(child) for node in order for child in node.children)
    return frozenset(node.path for node in order if parents[id(node)] > 1)
