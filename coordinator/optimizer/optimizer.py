"""The order of the rules.

One job: `optimize`. Conditions are simplified and filters and limits moved down until nothing
changes; joins are put in order; columns pruned; filters, limits and answers taken to the scans;
what is left twice is shared.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from fabric.coordinator.optimizer.aggregate_from_statistics import aggregate_from_statistics
from fabric.coordinator.optimizer.filter_pushdown import (
    filter_below_aggregate,
    filter_below_distinct,
    filter_below_exchange,
    filter_below_explode,
    filter_below_select,
    filter_below_sort,
    filter_below_union,
    filter_below_window,
    filter_below_with_columns,
    filter_into_scan,
    merge_filters,
)
from fabric.coordinator.optimizer.join_conditions import condition_below_join, keys_from_condition
from fabric.coordinator.optimizer.join_filters import (
    filter_below_join,
    filter_into_join,
    imply_filters,
    outer_to_inner,
)
from fabric.coordinator.optimizer.join_order import reorder_joins, smaller_side_right
from fabric.coordinator.optimizer.limit_pushdown import (
    limit_below_select,
    limit_into_scan,
    merge_limits,
)
from fabric.coordinator.optimizer.passes import Passes, PlanRule, Rules, name_of
from fabric.coordinator.optimizer.projections import drop_select, merge_selects, merge_with_columns
from fabric.coordinator.optimizer.prune_columns import prune_columns
from fabric.coordinator.optimizer.redundancy import drop_distinct, drop_sort, share_subplans
from fabric.coordinator.optimizer.simplification import (
    Evaluate,
    fold_constants,
    simplify_filter,
    simplify_logic,
)
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
    StreamJoin,
    UpdatingJoin,
    WithColumns,
)
from fabric.plan.schema import schema_of
from fabric.plan.statistics import NOTHING_KNOWN, Statistics

SIMPLIFY: Rules = {
    Filter: (simplify_logic, simplify_filter),
    **dict.fromkeys(
        (Scan, Join, StreamJoin, UpdatingJoin, Select, WithColumns, Aggregate, Sort),
        (simplify_logic,),
    ),
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
    pruned = run.root
    run.everywhere(INTO_SCAN)
    if run.root is not pruned:
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
        self._passes: dict[int, Passes] = {}

    def whole(self, rule: PlanRule) -> None:
        """One look at the whole plan."""
        name = name_of(rule)

        def note(before: Node, after: Node) -> Node:
            self._fired.append(Fired(name, before, after))
            return after

        self.root = rule(self.root, note)

    def everywhere(self, rules: Rules) -> None:
        """`rules` at every node, bottom-up, again until nothing changes."""
        known = self._passes.setdefault(id(rules), Passes(rules, self._fired))
        self.root = known.until_settled(self.root)

    def once(self, rules: Rules) -> None:
        """`rules` at every node, a single time."""
        self.root = Passes(rules, self._fired).once(self.root)
