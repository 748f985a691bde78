"""What endless rows allow, step by step: event time, changing results, and what needs an end.

One job: `stream_of`, what is known of the rows a node puts out when they come from a stream, and
the refusal of what no stream can do, with the way out. A plan without streams is never refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabric.errors import PlanError
from fabric.plan.faults import quoted
from fabric.plan.node import Node
from fabric.plan.nodes import Union
from fabric.plan.schema import schema_of
from fabric.plan.stream import Stream
from fabric.plan.streams import HIDDEN
from fabric.plan.walk import postorder


def stream_of(node: Node, paths: Mapping[int, str] | None = None) -> Stream | None:
    """What is known of the rows of `node`; None when they have an end.

    Raises `PlanError` with the path (out of `paths`, by ``id(node)``) of a node that a stream can't
    have. Each node is looked at once.
    """
    for part in postorder(node, _unknown_below):
        below = [child._stream for child in part.children]
        try:
            found = stream_after(part, below)
        except PlanError as error:
            raise error.at(node=(paths or {}).get(id(part), part.path)) from None
        object.__setattr__(part, "_stream", found)  # a frozen node has room for it
    return node._stream


def _unknown_below(node: Node) -> tuple[Node, ...]:
    return tuple(child for child in node.children if not hasattr(child, "_stream"))


def stream_after(node: Node, below: Sequence[Stream | None]) -> Stream | None:
    """What is known of the rows of `node`, given its inputs'; refuses what can't be."""
    if not node.children:
        return node.stream()
    if not any(below):
        node.bounded()
        return None
    if any(stream is not None and stream.sinks for stream in below):
        return _written(node, below)
    _no_hidden(node)
    return node.stream(*below)


def _written(node: Node, below: Sequence[Stream | None]) -> Stream:
    """Several writes may be one job; nothing else comes after a write."""
    if isinstance(node, Union) and all(stream is not None and stream.sinks for stream in below):
        return Stream(sinks=True)
    raise PlanError("a write is the last step: it puts out no rows to go on with")


def _no_hidden(node: Node) -> None:
    for name in HIDDEN:
        if name in schema_of(node).names:
            raise PlanError(f"{quoted(name)} is a name of Fabric's own; choose another")
