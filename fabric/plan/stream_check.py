"""What endless rows allow, step by step: event time, changing results, and what needs an end.

One job: `stream_of`, what is known of the rows a node puts out when they come from a stream, and
the refusal of what no stream can do, with the way out. A plan without streams is never refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabric.errors import PlanError
from fabric.plan.faults import quoted
from fabric.plan.nodes import Node, Sink, Union
from fabric.plan.schema import schema_of
from fabric.plan.sources import BlackholeTarget, StreamFileTarget
from fabric.plan.stream_facts import Stream
from fabric.plan.stream_steps import STEPS
from fabric.plan.streams import (
    HIDDEN,
    AssignWindows,
    Changes,
    Deduplicate,
    KeyedProcess,
    LookupJoin,
    SideOutput,
    StreamAggregate,
    StreamScan,
    TopN,
    Watermark,
)
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
    if isinstance(node, StreamScan):
        return Stream(split=True)
    rule = STEPS.get(type(node))
    if not any(below):
        _refuse_bounded(node)
        return None
    if any(stream is not None and stream.sinks for stream in below):
        return _written(node, below)
    if rule is None:
        return below[0]
    _no_hidden(node)
    found: Stream | None = rule(node, *below)
    return found


def _refuse_bounded(node: Node) -> None:
    """Refuse over rows with an end what only streams have."""
    if isinstance(node, Sink) and isinstance(node.target, StreamFileTarget):
        raise PlanError(
            "write_stream is for streams, and these rows have an end; write: "
            f".write_{node.target.format}({quoted(node.target.path)})"
        )
    if isinstance(node, Sink) and isinstance(node.target, BlackholeTarget):
        raise PlanError("to_blackhole is for streams, and these rows have an end; leave it out")
    if type(node) in _BOUNDED_WAYS:
        raise needs_stream(type(node))


def needs_stream(step: type[Node]) -> PlanError:
    """The refusal of such a step over rows with an end."""
    what, way = _BOUNDED_WAYS[step]
    return PlanError(f"{what} is for streams, and these rows have an end; {way}")


_BOUNDED_WAYS: dict[type, tuple[str, str]] = {
    Watermark: ("with_watermark", "leave it out, or read them with fabric.streams.replay(…)"),
    AssignWindows: ("assign_windows", 'write: .group_by_dynamic("time", every="15 minutes")'),
    StreamAggregate: ("a window", 'write: .group_by_dynamic("time", every="15 minutes")'),
    Deduplicate: ("deduplicate", "write: .distinct()"),
    TopN: ("top_n", "write: .with_columns(rank=row_number().over(…)) and .filter(…)"),
    KeyedProcess: ("process", "read them with fabric.streams.replay(…)"),
    SideOutput: ("side_output", "there is none without a stream"),
    LookupJoin: ("a lookup", "write: .join(other, …)"),
    Changes: ("changes", "leave it out"),
}


def _written(node: Node, below: Sequence[Stream | None]) -> Stream:
    """Several writes may be one job; nothing else comes after a write."""
    if isinstance(node, Union) and all(stream is not None and stream.sinks for stream in below):
        return Stream(sinks=True)
    raise PlanError("a write is the last step: it puts out no rows to go on with")


def _no_hidden(node: Node) -> None:
    for name in HIDDEN:
        if name in schema_of(node).names:
            raise PlanError(f"{quoted(name)} is a name of Fabric's own; choose another")
