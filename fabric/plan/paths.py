"""An address for every node: the user's where given, ``filter_2`` and so on elsewhere.

One job: choose paths and refuse doubles. A node shared by two parents has one path. Numbers count
the nodes of a kind in walk order, so the same plan always gets the same paths. A path with a ``*``
is a pattern: a verb that becomes several nodes gives them ``"join_asof_*/union"`` and the like, and
the star becomes the first number that is free.
"""

from __future__ import annotations

import re
from dataclasses import replace

from fabric.errors import PlanError
from fabric.plan.faults import quoted
from fabric.plan.mend import free_name
from fabric.plan.node import Node
from fabric.plan.walk import rewrite, walk

PATH_MAX = 200
STAR = "*"
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


def assign_paths(root: Node) -> dict[int, str]:
    """The path of every node by ``id(node)``; raises `PlanError` for a bad or doubled one."""
    nodes = list(walk(root))
    given: dict[str, Node] = {}
    for node in nodes:
        if node.path:
            check_path(node.path)
            if STAR in node.path:
                continue
            if node.path in given:
                raise _doubled(node, given)
            given[node.path] = node
    return _numbered(nodes, given)


def display_paths(root: Node) -> dict[int, str]:
    """The path of every node by ``id(node)``, for showing a plan that may be wrong."""
    nodes = list(walk(root))
    given = {node.path: node for node in nodes if node.path and STAR not in node.path}
    return _numbered(nodes, given)


def _numbered(nodes: list[Node], given: dict[str, Node]) -> dict[int, str]:
    counts: dict[str, int] = {}
    return {
        id(node): node.path if node.path in given else _next(node, counts, given) for node in nodes
    }


def with_own_paths(root: Node) -> Node:
    """The plan with one path for one step, where rewrites have made several of the same path.

    >>> import pyarrow as pa
    >>> from fabric.plan.nodes import Limit, StageInput, Union
    >>> rows = StageInput(0, pa.schema([]), path="in")
    >>> two = Union((Limit(rows, 1, path="in/first"), Limit(rows, 2, path="in/first")), path="all")
    >>> [node.path for node in walk(with_own_paths(two))]
    ['in', 'in/first', 'in/first_2', 'all']
    """
    taken: set[str] = set()

    def own(node: Node) -> Node:
        path = free_name(node.path, taken) if node.path in taken else node.path
        taken.add(path)
        return node if path == node.path else replace(node, path=path)

    return rewrite(root, own)


def check_path(path: str) -> str:
    """Return `path` when it can be an address, else raise `PlanError`.

    >>> check_path("enrich/join")
    'enrich/join'
    """
    segments = path.split("/")
    good = all(part and part == part.strip() and part.isprintable() for part in segments)
    if good and len(path) <= PATH_MAX:
        return path
    raise PlanError(
        f"the path {quoted(path[:PATH_MAX])} is not allowed; use up to {PATH_MAX} printable "
        'characters in parts between "/", for example .named("enrich/join")'
    )


def _doubled(node: Node, given: dict[str, Node]) -> PlanError:
    """The error for two different nodes of one path."""
    path = node.path
    first, second = given[path].text()[:80], node.text()[:80]
    free = quoted(free_name(path, given))
    return PlanError(
        f"two steps are called {quoted(path)}: {first} and {second}; write: .named({free})",
        node=path,
    )


def kind_of(node: Node, between: str = " ") -> str:
    """The name of its class in words.

    >>> from fabric.plan.nodes import Limit
    >>> kind_of(Limit(None, 1)), kind_of(type("LookupJoin", (), {})(), "_")
    ('limit', 'lookup_join')
    """
    return _WORDS.sub(between, type(node).__name__).lower()


def _next(node: Node, counts: dict[str, int], given: dict[str, Node]) -> str:
    pattern = node.path or f"{kind_of(node, '_')}_{STAR}"
    while True:
        counts[pattern] = counts.get(pattern, 0) + 1
        path = pattern.replace(STAR, str(counts[pattern]))
        if path not in given:
            return path
