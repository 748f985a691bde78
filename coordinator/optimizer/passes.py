"""Rules at every node of a plan, until they rest.

A `Rule` looks at one node and what is right below it; `over` says of which kinds these are. A
`PlanRule` looks at a whole plan and tells each change by `note(before, after)`, which hands `after`
back. A pass of `Passes` goes bottom-up. A rule never takes apart a node that has another parent,
because that parent would need a copy: shared work stays shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import TypeVar

from fabric.cancellation import check_wanted
from fabric.coordinator.optimizer.trace import Fired
from fabric.plan.node import remember_schema
from fabric.plan.nodes import Node
from fabric.plan.schema import is_known, schema_of
from fabric.plan.walk import walk

Rule = Callable[[Node], Node]
Note = Callable[[Node, Node], Node]
PlanRule = Callable[[Node, Note], Node]
Rules = Mapping[type, tuple[Rule, ...]]
"""Rules by the kind of node they look at."""

A = TypeVar("A", bound=Node)
B = TypeVar("B", bound=Node)
_ROUNDS_MAX = 100
_MOVES_MAX = 200


def over(above: type[A], below: type[B]) -> Callable[[Callable[[A, B], Node]], Rule]:
    """Make a rule of what is done to a node right over another; nodes of other kinds stay."""

    def made(rule: Callable[[A, B], Node]) -> Rule:
        @wraps(rule)
        def checked(node: Node) -> Node:
            if isinstance(node, above) and isinstance(child := node.children[0], below):
                return rule(node, child)
            return node

        return checked

    return made


class Passes:
    """Passes of the same rules; a node at which none fired is not looked at again."""

    def __init__(self, rules: Rules, fired: list[Fired]) -> None:
        self._rules, self._fired = rules, fired
        self._rests: dict[int, Node] = {}
        self._shared: frozenset[str] = frozenset()

    def until_settled(self, root: Node) -> Node:
        """Passes until nothing changes."""
        for _ in range(_ROUNDS_MAX):
            before, root = root, self.once(root)
            if root is before:
                return root
        return root

    def once(self, root: Node) -> Node:
        """One pass. What a rule moves down goes on moving, so it goes a long way."""
        order = list(walk(root))
        if not any(type(node) in self._rules for node in order):
            return root
        self._shared = _shared_paths(order)
        done: dict[int, Node] = {}
        for node in order:
            check_wanted()
            now = node
            if below := node.children:
                now = node.with_children(tuple([done[id(child)] for child in below]))
            if now is not node:
                _alike(node, now)
            if type(now) in self._rules and id(now) not in self._rests:
                now = self._settled(now)
            done[id(node)] = now
        return done[id(root)]

    def _settled(self, node: Node, n_moves: int = 0) -> Node:
        found = self._changed(node)
        if found is node or n_moves == _MOVES_MAX:
            return found
        below = tuple(
            self._settled(child, n_moves + 1)
            if type(child) is type(node) and child.path == node.path
            else child
            for child in found.children
        )
        return _alike(found, found.with_children(below))

    def _changed(self, node: Node) -> Node:
        """What the first rule that fires makes of `node`."""
        mine = self._rules.get(type(node))
        if mine is None or id(node) in self._rests:
            return node
        if self._shared and any(child.path in self._shared for child in node.children):
            return node
        for rule in mine:
            if (new := rule(node)) is not node:
                self._fired.append(Fired(name_of(rule), node, new))
                return _alike(node, new)
        self._rests[id(node)] = node
        return node


def unnoted(_: Node, after: Node) -> Node:
    """For callers that only want the plan."""
    return after


def name_of(rule: object) -> str:
    """What a rule is called in `explain`."""
    named = rule.func if isinstance(rule, partial) else rule
    return str(getattr(named, "__name__", type(named).__name__))


def _alike(before: Node, after: Node) -> Node:
    """`after`, which puts out the columns of `before`: a rule changes none of them."""
    if after is not before and not is_known(after) and is_known(before):
        remember_schema(after, schema_of(before))
    return after


def _shared_paths(order: list[Node]) -> frozenset[str]:
    """Paths of nodes with more than one parent (or twice below one)."""
    if sum([len(node.children) for node in order]) < len(order):  # a tree
        return frozenset()
    parents = Counter(id(child) for node in order for child in node.children)
    return frozenset(node.path for node in order if parents[id(node)] > 1)
