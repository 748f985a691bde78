"""Whether a plan has an end, and how the rows of its streams come.

One job: small questions about whole plans of streams.
"""

from __future__ import annotations

from zlib import crc32

from fabric.plan.nodes import Groups, Node, SideOutput, StreamScan
from fabric.plan.paths import assign_paths
from fabric.plan.sources import (
    FlightStream,
    FollowedFiles,
    GeneratorStream,
    KafkaStream,
    NexmarkStream,
    ReplayStream,
    StreamSource,
)
from fabric.plan.streams import LATE
from fabric.plan.walk import walk


def is_endless(root: Node) -> bool:
    """Whether a stream is read anywhere in the plan."""
    return any(isinstance(node, StreamScan) for node in walk(root))


def drops_late(root: Node) -> frozenset[str]:
    """The paths of the steps whose late rows nobody reads: they are counted, and gone."""
    if not is_endless(root):
        return frozenset()
    steps, paths = list(walk(root)), assign_paths(root)
    read = {id(n.input) for n in steps if isinstance(n, SideOutput) and n.tag == LATE}
    return frozenset(
        paths[id(step)] for step in steps if isinstance(step, Groups) and id(step) not in read
    )


def never_ends(root: Node) -> bool:
    """Whether a stream without an end of its own is read anywhere in the plan."""
    return any(isinstance(node, StreamScan) and _is_open(node.source) for node in walk(root))


def _is_open(source: StreamSource) -> bool:
    match source:
        case GeneratorStream(n_rows=n) | NexmarkStream(n_events=n):
            return not n
        case ReplayStream():
            return False
        case FollowedFiles(until=until) | KafkaStream(until=until):
            return not until
        case FlightStream():
            return True


def finds_splits(source: StreamSource) -> bool:
    """Whether splits may come while the stream is read."""
    return isinstance(source, KafkaStream)


def task_of(split: str, n_tasks: int) -> int:
    """Which of `n_tasks` reads a split of a source that `finds_splits`.

    The name alone says it, so that nobody need hand out a new one. It ends with a number; those
    that have the rest in common go to all tasks in turn.

    >>> [task_of(f"clicks-{partition}", 2) for partition in range(4)]
    [1, 0, 1, 0]
    """
    topic, _, partition = split.rpartition("-")
    return (crc32(topic.encode()) + int(partition)) % n_tasks
