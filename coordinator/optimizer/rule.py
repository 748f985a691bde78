"""The shapes of rules.

One job: their types. A `Rule` looks at one node and what is right below it. A `PlanRule` looks at
a whole plan and tells each change by `note(before, after)`, which hands `after` back.
"""

from __future__ import annotations

from collections.abc import Callable

from fabric.plan.nodes import Node

Rule = Callable[[Node], Node]
Note = Callable[[Node, Node], Node]
PlanRule = Callable[[Node, Note], Node]


def unnoted(_: Node, after: Node) -> Node:
    """For callers that only want the plan."""
    return after
