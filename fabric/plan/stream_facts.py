"""What is known of the streams of a plan: whether it ends, and how the rows of a node come.

`stream_of` is what is known of the rows that a node puts out: event time, ends of windows, changing
results. It refuses what no stream can do, with the way out; a plan without streams is never
refused. The other functions answer small questions about whole plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from zlib import crc32

from fabric.errors import PlanError
from fabric.plan.faults import quoted
from fabric.plan.node import Node
from fabric.plan.nodes import Groups, Match, SideOutput, StreamScan, TwoStreams, Union
from fabric.plan.paths import assign_paths
from fabric.plan.schema import schema_of
from fabric.plan.stream import LATE, LATE_LEFT, LATE_RIGHT, RESERVED, Stream
from fabric.plan.walk import postorder, walk


def is_endless(root: Node) -> bool:
    """Whether a stream is read anywhere in the plan."""
    return any(isinstance(node, StreamScan) for node in walk(root))


def drops_late(root: Node) -> frozenset[tuple[str, str]]:
    """Steps by path, and tags, of the late rows that nobody reads: they are counted, and gone."""
    if not is_endless(root):
        return frozenset()
    steps, paths = list(walk(root)), assign_paths(root)
    read = {(id(step.input), step.tag) for step in steps if isinstance(step, SideOutput)}
    return frozenset(
        (paths[id(step)], tag)
        for step in steps
        for tag in _late_tags(step)
        if (id(step), tag) not in read
    )


def _late_tags(step: Node) -> tuple[str, ...]:
    if isinstance(step, TwoStreams) and step.left_time:
        return LATE_LEFT, LATE_RIGHT
    return (LATE,) if isinstance(step, Groups | Match) else ()


def never_ends(root: Node) -> bool:
    """Whether a stream without an end of its own is read anywhere in the plan."""
    return any(isinstance(node, StreamScan) and node.source.is_open for node in walk(root))


def task_of(split: str, n_tasks: int) -> int:
    """Which of `n_tasks` reads a split of a source that finds splits while it is read.

    The name alone says it, so that nobody need hand out a new one. It ends with a number; those
    that have the rest in common go to all tasks in turn.

    >>> [task_of(f"clicks-{partition}", 2) for partition in range(4)]
    [1, 0, 1, 0]
    """
    topic, _, partition = split.rpartition("-")
    return (crc32(topic.encode()) + int(partition)) % n_tasks


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
    for name in RESERVED:
        if name in schema_of(node).names:
            raise PlanError(f"{quoted(name)} is a name of Fabric's own; choose another")
