"""What a node of a stream says by itself: whether its results change, which columns it adds.

One job: small answers that need no schema, for rules, texts and the planner.
"""

from __future__ import annotations

from typing import get_args

from fabric.config import StateBackend
from fabric.plan.nodes import Join, Node, Sink
from fabric.plan.sources import DatasetTarget
from fabric.plan.streams import Deduplicate, KeyedProcess, LookupJoin, StreamAggregate, TopN
from fabric.plan.windowing import Count, Global

_GROUPS: tuple[StateBackend, ...] = tuple(s for s in get_args(StateBackend) if s != "rocksdb")
"""Where groups can be: RocksDB has states of functions alone."""


def has_window_columns(node: StreamAggregate) -> bool:
    """Whether it puts out the start and the end of its windows."""
    return node.window is not None and not isinstance(node.window, Count | Global)


def changes_results(node: Node) -> bool:
    """Whether a keyed node may put out a result that replaces an earlier one."""
    match node:
        case StreamAggregate(window=None, closes=closes):
            return not closes
        case StreamAggregate(window=window, trigger=trigger, lateness_us=lateness_us):
            assert window is not None
            return trigger.emits_changes(window, lateness_us)
        case Deduplicate(keep=keep, by=by, closes=closes):
            return not closes and (keep == "last" or bool(by))
        case TopN(closes=closes):
            return not closes
        case _:
            return False


def hands_down(node: Node) -> bool:
    """Whether its operator hands groups down when they take more memory than it may have."""
    return isinstance(node, StreamAggregate | Deduplicate | TopN)


def is_view(node: Node) -> bool:
    """Whether it keeps the newest row of each key of what is written to it."""
    target = node.target if isinstance(node, Sink) else None
    return isinstance(target, DatasetTarget) and target.mode == "view"


def keeps_state_in(node: Node) -> tuple[StateBackend, ...]:
    """Where a node can keep what it knows of its keys; nowhere, if it knows nothing of them."""
    if isinstance(node, KeyedProcess):
        return ("memory", "rocksdb", "auto")
    if is_view(node):
        return ("memory", "arrow", "auto")
    return _GROUPS if hands_down(node) else ()


def as_join(node: LookupJoin) -> Join:
    """The join of two inputs with an end that puts out the same columns."""
    return Join(
        node.input, node.table, node.left_keys, node.right_keys, node.how, node.suffix,
        path=node.path,
    )  # fmt: skip
