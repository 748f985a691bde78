"""Which joins come first, and which side of a join is the right one.

Both rules look at the whole plan and decide by guesses of sizes. They leave a join alone whose path
the user has configured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import combinations

from fabric.coordinator.optimizer.cardinality import Cardinality, Guess, joined_rows, together
from fabric.coordinator.optimizer.join_chain import (
    Chain,
    Order,
    built,
    chain_of,
    is_link,
    pairs_between,
)
from fabric.coordinator.optimizer.passes import Note
from fabric.coordinator.planner.estimate import BROADCAST_BYTES_MAX, Size, estimates
from fabric.plan.node import remember_schema
from fabric.plan.nodes import Join, Node, Scan
from fabric.plan.schema import schema_of
from fabric.plan.statistics import Statistics
from fabric.plan.walk import rewrite, walk

_SAVES = 0.67
_RELATIONS_MAX = 40
Item = tuple[Order, frozenset[int], Guess]


def reorder_joins(statistics: Statistics, pinned: Collection[str], root: Node, note: Note) -> Node:
    """Join small results first.

        Join                      Select(columns as they were)
          Join                      Join
            Facts            =>       Facts
            Much                      Join
          Few                           Much
                                        Few

    Valid for inner joins whose keys and conditions can't fail: which pairs of rows match does not
    depend on the order. Greedy: again and again the two inputs whose join has the fewest rows
    (Fegaras, DEXA 1998), the larger one left, because the right one is built or sent. Only where
    the guesses say that it saves a third of the rows in between; nothing is changed where a source
    is not known.

    Reorder every chain of three or more relations; paths in `pinned` stay what they are.
    """
    order = list(walk(root))
    if sum(isinstance(node, Join) for node in order) < 2:
        return root
    parents = Counter(id(child) for node in order for child in node.children)
    cardinality = Cardinality(statistics)

    def may_open(node: Node) -> bool:
        return parents[id(node)] <= 1 and node.path not in pinned

    inside: set[int] = set()
    done: dict[int, Node] = {}
    for node in reversed(order):
        if isinstance(node, Join) and id(node) not in inside and node.path not in pinned:
            if not is_link(node):
                continue
            chain = chain_of(node, may_open)
            inside.update(id(join) for join in chain.joins)
            if (found := _better(chain, cardinality)) is not None:
                done[id(node)] = note(node, built(chain, found))
    return _replaced(root, done) if done else root


def _replaced(root: Node, new: dict[int, Node]) -> Node:
    """`root` with other nodes in places; what was put in holds old nodes that may change too."""
    made: dict[int, Node] = {}
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in made:
            continue
        now = new.get(id(node), node)
        if not ready:
            stack.append((node, True))
            stack.extend((child, False) for child in now.children)
            continue
        done = now.with_children(tuple(made[id(child)] for child in now.children))
        remember_schema(done, schema_of(node))
        made[id(node)] = done
    return made[id(root)]


def _better(chain: Chain, cardinality: Cardinality) -> Order | None:
    """An order that is clearly cheaper than the written one, or None."""
    n_relations = len(chain.relations)
    if not 3 <= n_relations <= _RELATIONS_MAX:
        return None
    if any(len(side) != 1 for edge in chain.edges for side in edge.relations):
        return None  # a key of two relations would have to wait for both
    guesses = [cardinality.of(relation) for relation in chain.relations]
    items: list[Item] = []
    for number, guess in enumerate(guesses):
        if guess is None:
            return None
        items.append((number, frozenset((number,)), guess))
    written = _cost(_written(chain), chain, items)
    order = _greedy(chain, items)
    return order if _cost(order, chain, items) < written * _SAVES else None


def _greedy(chain: Chain, items: list[Item]) -> Order:
    left = list(items)
    while len(left) > 1:
        best = min(combinations(left, 2), key=lambda pair: _rank(pair, chain))
        left = [item for item in left if item is not best[0] and item is not best[1]]
        left.append(_pair(*best, chain))
    return left[0][0]


def _rank(pair: tuple[Item, Item], chain: Chain) -> tuple[bool, float, float]:
    """Pairs without a key last, then by rows that come out and that go in."""
    one, other = pair
    keys = list(pairs_between(chain.edges, one[1], other[1]))
    rows = joined_rows(keys, one[2], other[2])
    return not keys, rows, one[2].rows + other[2].rows


def _pair(one: Item, other: Item, chain: Chain) -> Item:
    """Both joined, the one with more rows on the left."""
    if one[2].rows < other[2].rows:
        one, other = other, one
    keys = list(pairs_between(chain.edges, one[1], other[1]))
    guess = together(one[2], other[2], joined_rows(keys, one[2], other[2]))
    return (one[0], other[0]), one[1] | other[1], guess


def _cost(order: Order, chain: Chain, items: list[Item]) -> float:
    """Rows of all joins but the last, which are the same in any order."""
    between: list[float] = []

    def visit(part: Order) -> Item:
        if isinstance(part, int):
            return items[part]
        made = _pair(visit(part[0]), visit(part[1]), chain)
        between.append(made[2].rows)
        return made

    visit(order)
    return sum(between[:-1])


def _written(chain: Chain) -> Order:
    """The order in which the joins were written: relations are numbered left to right."""
    numbers = iter(range(len(chain.relations)))
    inside = {id(join) for join in chain.joins}

    def visit(node: Node) -> Order:
        while not isinstance(node, Join) or id(node) not in inside:
            below = _link_below(node, inside)
            if below is None:
                return next(numbers)
            node = below
        return visit(node.left), visit(node.right)

    return visit(chain.joins[-1])


def _link_below(node: Node, inside: set[int]) -> Node | None:
    """The join of the chain under selects and filters, if there is one."""
    while len(node.children) == 1:
        (node,) = node.children
        if id(node) in inside:
            return node
    return None


def smaller_side_right(
    statistics: Statistics, pinned: Collection[str], root: Node, note: Note
) -> Node:
    """The side that is sent to everybody is the right one, so the small one goes there.

        Join              Select(columns as they were)
          Few       =>      Join
          Many                Many
                              Few

    Valid for inner joins whose keys and condition can't fail: pairs of rows match whichever side
    they are on. Only where the left side may be broadcast (it is known to be small, and smaller
    than the right one); the planner decides by the same estimate.

    Swap every join that gains by it; `root` itself when none does.
    """
    if not any(isinstance(node, Join) for node in walk(root)):
        return root
    sizes = estimates(root, lambda scan: _n_rows(scan, statistics))
    swapped = {
        id(node)
        for node in walk(root)
        if isinstance(node, Join)
        and node.how == "inner"
        and node.path not in pinned
        and _gains(sizes[id(node.left)], sizes[id(node.right)])
        and is_link(node)
    }
    if not swapped:
        return root
    order = iter([id(node) in swapped for node in walk(root)])

    def swap(node: Node) -> Node:
        if not next(order):
            return node
        assert isinstance(node, Join)
        return note(node, built(chain_of(node, lambda _: False), (1, 0)))

    return rewrite(root, swap)


def _n_rows(scan: Scan, statistics: Statistics) -> int | None:
    facts = statistics.get(scan.path)
    return None if facts is None else facts.n_rows


def _gains(left: Size, right: Size) -> bool:
    if left.n_bytes is None or right.n_bytes is None:
        return False
    return left.n_bytes <= BROADCAST_BYTES_MAX and left.n_bytes < right.n_bytes
