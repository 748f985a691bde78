"""What endless rows allow, step by step: event time, changing results, and what needs an end.

One job: `stream_of`, what is known of the rows a node puts out when they come from a stream, and
the refusal of what no stream can do, with the way out. A plan without streams is never refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fabric.errors import PlanError
from fabric.plan.expr import Expr, output_name
from fabric.plan.exprs import kept_names
from fabric.plan.faults import quoted
from fabric.plan.mend import mended
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Exchange,
    Explode,
    Filter,
    Join,
    Limit,
    Node,
    Select,
    Sink,
    Sort,
    Union,
    Window,
    WithColumns,
)
from fabric.plan.place_text import target_text
from fabric.plan.schema import schema_of
from fabric.plan.sources import (
    DatasetTarget,
    FileTarget,
    FlightStream,
    FollowedFiles,
    GeneratorStream,
    NexmarkStream,
    ReplayStream,
    StreamFileTarget,
    StreamSource,
)
from fabric.plan.stream_kinds import changes_results, has_window_columns
from fabric.plan.streams import (
    HIDDEN,
    AssignWindows,
    Changes,
    Deduplicate,
    Keyed,
    KeyedProcess,
    LookupJoin,
    SideOutput,
    StreamAggregate,
    StreamScan,
    TopN,
    Watermark,
)
from fabric.plan.walk import postorder, walk
from fabric.plan.windowing import WINDOW_END, Count, Global


@dataclass(frozen=True, slots=True)
class Stream:
    """Endless rows. `time` is their column of event time, if there is one yet or still.

    `ends` are columns that hold ends of windows which are complete: a row is as old as just before
    them. `split`: rows are still told apart by the split they came from. `changes`: a row may
    replace an earlier one. `sinks`: they were written already.
    """

    time: str = ""
    ends: frozenset[str] = frozenset()
    timed: bool = False
    split: bool = False
    changes: bool = False
    sinks: bool = False


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


def is_endless(root: Node) -> bool:
    """Whether a stream is read anywhere in the plan."""
    return any(isinstance(node, StreamScan) for node in walk(root))


def never_ends(root: Node) -> bool:
    """Whether a stream without an end of its own is read anywhere in the plan."""
    return any(isinstance(node, StreamScan) and _is_open(node.source) for node in walk(root))


def _is_open(source: StreamSource) -> bool:
    match source:
        case GeneratorStream(n_rows=n) | NexmarkStream(n_events=n):
            return not n
        case ReplayStream():
            return False
        case FollowedFiles(until=until):
            return not until
        case FlightStream():
            return True


def stream_after(node: Node, below: Sequence[Stream | None]) -> Stream | None:
    """What is known of the rows of `node`, given its inputs'; refuses what can't be."""
    if isinstance(node, StreamScan):
        return Stream(split=True)
    rule = _RULES.get(type(node))
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
    ways = _BOUNDED_WAYS.get(type(node))
    if ways is not None:
        what, way = ways
        raise PlanError(f"{what} is for streams, and these rows have an end; {way}")


_BOUNDED_WAYS: dict[type, tuple[str, str]] = {
    Watermark: ("with_watermark", "leave it out, or read them with fabric.streams.replay(…)"),
    AssignWindows: ("assign_windows", "group by date_trunc(…), or use fabric.streams.replay(…)"),
    StreamAggregate: ("a window", "group by date_trunc(…), or use fabric.streams.replay(…)"),
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


# ---- steps that look at each row alone
def _narrow(node: Filter, stream: Stream) -> Stream:
    return stream


def _renamed(stream: Stream, names: Mapping[str, str]) -> Stream:
    ends = frozenset(names[name] for name in stream.ends if name in names)
    return replace(stream, time=names.get(stream.time, ""), ends=ends)


def _select(node: Select, stream: Stream) -> Stream:
    return _renamed(stream, kept_names(node.exprs))


def _with_columns(node: WithColumns, stream: Stream) -> Stream:
    new = {output_name(expr) for expr in node.exprs}
    return _renamed(stream, {n: n for n in schema_of(node.input).names if n not in new})


def _explode(node: Explode, stream: Stream) -> Stream:
    return _renamed(stream, {n: n for n in schema_of(node.input).names if n != node.column})


def _exchange(node: Exchange, stream: Stream) -> Stream:
    if node.kind == "broadcast":
        raise PlanError("a stream can't be broadcast; leave the exchange out")
    if node.mode == "materialised":
        raise mended("a stream never ends, so it can't be materialised", replace(node, mode="auto"))
    return replace(stream, split=False)


def _union(node: Union, *below: Stream | None) -> Stream:
    streams = [stream for stream in below if stream is not None]
    if len(streams) < len(below):
        raise PlanError(
            "a union of a stream and rows with an end; read those as a stream too: "
            "fabric.streams.replay(…)"
        )
    names = [schema_of(child).names for child in node.inputs]
    times = {ns.index(s.time) if s.time else -1 for s, ns in zip(streams, names, strict=True)}
    (place, *others) = times
    time = "" if others or place < 0 else names[0][place]
    return Stream(
        time=time,
        ends=_common_ends(streams, names),
        timed=all(stream.timed for stream in streams),
        changes=any(stream.changes for stream in streams),
    )


def _common_ends(streams: Sequence[Stream], names: Sequence[list[str]]) -> frozenset[str]:
    places = [
        {ns.index(end) for end in s.ends} for s, ns in zip(streams, names, strict=True)
    ]  # fmt: skip
    return frozenset(names[0][place] for place in set.intersection(*places))


# ---- event time and windows
def _watermark(node: Watermark, stream: Stream) -> Stream:
    if stream.timed:
        raise PlanError(
            f"event time is {quoted(stream.time)} already; leave one with_watermark out"
            if stream.time
            else "there is a with_watermark already; leave one out"
        )
    if not stream.split:
        raise PlanError(
            "with_watermark goes by the splits of a source, and they are mixed here; write it "
            "right after each read_stream, before union, exchange and group_by"
        )
    return replace(stream, time=node.column, timed=True)


def _assign_windows(node: AssignWindows, stream: Stream) -> Stream:
    _append_only(stream, "assign_windows")
    _timed(stream, "a window")
    _by_time(node.time, stream)
    return replace(stream, ends=stream.ends | {WINDOW_END}, split=False)


def _aggregate(node: StreamAggregate, stream: Stream) -> Stream:
    _append_only(stream, "an aggregate")
    window = node.window
    if isinstance(window, Count | Global) and node.time:
        raise PlanError("a window of rows has no time")
    if node.time:
        _timed(stream, "a window of event time")
        _by_time(node.time, stream)
    _check_waiting(node, stream)
    if window is not None and node.closes:
        raise PlanError("a window closes by itself; leave closes out")
    after = Stream(timed=stream.timed, changes=changes_results(node))
    if after.changes:
        return after
    if has_window_columns(node) and node.time:
        return replace(after, time=WINDOW_END, ends=frozenset((WINDOW_END,)))
    return replace(after, time=node.closes, ends=frozenset(filter(None, (node.closes,))))


def _deduplicate(node: Deduplicate, stream: Stream) -> Stream:
    _append_only(stream, "deduplicate")
    _check_waiting(node, stream)
    return replace(stream, split=False, changes=changes_results(node))


def _top_n(node: TopN, stream: Stream) -> Stream:
    _append_only(stream, "top_n")
    _check_waiting(node, stream)
    return replace(stream, split=False, changes=changes_results(node))


def _process(node: KeyedProcess, stream: Stream) -> Stream:
    _append_only(stream, "process")
    if "event" in node.timers or node.time:
        _timed(stream, "a timer of event time" if "event" in node.timers else "event time")
    return Stream(time=node.time, timed=stream.timed)


def _check_waiting(node: StreamAggregate | Deduplicate | TopN, stream: Stream) -> None:
    """Lateness needs something to be late for."""
    if node.closes:
        _timed(stream, f"a group that ends at {quoted(node.closes)}")
        keys = kept_names(node.keys)
        if node.closes not in {keys[end] for end in stream.ends if end in keys}:
            raise PlanError(
                f"{quoted(node.closes)} is not the end of a window below, so groups never close"
            )
    elif not getattr(node, "time", "") and (node.lateness_us or node.late == "side"):
        raise PlanError(
            "without a window of event time no row is late; leave lateness and late out"
        )


def _append_only(stream: Stream, what: str) -> None:
    if stream.changes:
        raise PlanError(
            f"{what} can't take changing results: the rows below replace earlier ones. Give the "
            'aggregate below a window: .group_by(…).window("1 hour").agg(…), or go on with '
            ".changes(), which makes each change a row of its own"
        )


def _timed(stream: Stream, what: str) -> None:
    if not stream.timed:
        raise PlanError(
            f"{what} needs event time; write, right after read_stream: "
            '.with_watermark("ts", "5 seconds") with the column of times'
        )


def _by_time(column: str, stream: Stream) -> None:
    if column == stream.time or column in stream.ends:
        return
    if not stream.time:
        raise PlanError(
            "the column of event time was left out or changed by an earlier step; keep it as it is"
        )
    raise PlanError(
        f"windows go by event time, which is {quoted(stream.time)}, not {quoted(column)}"
    )


# ---- sides, tables, ends
def _side_output(node: SideOutput, stream: Stream) -> Stream:
    del stream
    assert isinstance(node.input, Watermark | Keyed)  # else its schema was refused
    return Stream(timed=not isinstance(node.input, Watermark))


def _lookup_join(node: LookupJoin, stream: Stream | None, table: Stream | None) -> Stream:
    if table is not None or stream is None:
        raise _two_streams() if stream is not None else _turned_round()
    names = schema_of(node).names
    return _renamed(stream, {n: n for n in schema_of(node.input).names if n in names})


def _changes(node: Changes, stream: Stream) -> Stream:
    return replace(stream, changes=False, split=False)


def _sink(node: Sink, stream: Stream) -> Stream:
    target = node.target
    if stream.changes:
        raise PlanError(
            "these results change, and what is written can't be taken back; write: "
            f".changes().{target_text(target)}, which writes each change as a row with its kind"
        )
    if isinstance(target, FileTarget):
        way = f"write_stream({quoted(target.path)}, format={quoted(target.format)})"
        raise PlanError(f"a stream never ends, so no file of it would be finished; write: .{way}")
    if isinstance(target, DatasetTarget) and target.mode != "append":
        line = replace(node, target=replace(target, mode="append"))
        raise mended(
            "a stream is written to a dataset bit by bit, a transaction a checkpoint; use mode "
            '"append"', line,
        )  # fmt: skip
    return Stream(sinks=True)


def _two_streams() -> PlanError:
    return PlanError(
        "a join of two streams would keep all rows of both for ever; join the stream with a table, "
        "or union both and use .process(…) by the key"
    )


def _turned_round() -> PlanError:
    return PlanError(
        "a table can't be joined with a stream, only a stream with a table; write: "
        "stream.join(table, …)"
    )


def _join(node: Join, left: Stream | None, right: Stream | None) -> Stream:
    if left is not None and right is not None:
        raise _two_streams()
    if left is None:
        raise _turned_round()
    raise PlanError(
        f"a {node.how} join of a stream would have to wait for its end; use how inner, left, semi "
        "or anti, with keys and without a condition"
    )


def _refused(what: str, way: str) -> Callable[..., Stream]:
    def refuse(node: Node, *_: Stream | None) -> Stream:
        raise PlanError(f"a stream never ends, so {what}; {way}")

    return refuse


_RULES: dict[type, Callable[..., Any]] = {
    Filter: _narrow,
    Select: _select,
    WithColumns: _with_columns,
    Explode: _explode,
    Exchange: _exchange,
    Union: _union,
    Watermark: _watermark,
    AssignWindows: _assign_windows,
    StreamAggregate: _aggregate,
    Deduplicate: _deduplicate,
    TopN: _top_n,
    KeyedProcess: _process,
    SideOutput: _side_output,
    LookupJoin: _lookup_join,
    Changes: _changes,
    Sink: _sink,
    Join: _join,
    Sort: _refused(
        "it can't be sorted", "use .top_n(3, by=…) by key or window, or sort what was written"
    ),
    Limit: _refused(
        "a limit would leave open when", "filter it, or use .top_n(3, by=…) by key or window"
    ),
    Window: _refused(
        "window functions never see a whole partition",
        "use .top_n(…) for ranks, or .group_by(…).window(…).agg(…)",
    ),
    Aggregate: _refused(
        "an aggregate of all its rows never comes",
        'write: .group_by(…).window("1 hour").agg(…)',
    ),
    Distinct: _refused("all its rows are never there", "write: .deduplicate(…) by key"),
}


def closing(keys: Sequence[Expr], stream: Stream) -> str:
    """The key by which groups are complete one day: one that is the end of a window below."""
    names = kept_names(keys)
    return next((names[end] for end in sorted(stream.ends) if end in names), "")
