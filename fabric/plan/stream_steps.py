"""What each kind of step makes of endless rows, and which ones no stream can have.

One job: one rule a node, for `stream_check.py`: what is known of the rows after it, or a refusal
with the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fabric.errors import PlanError
from fabric.plan.expr import output_name
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
from fabric.plan.sources import DatasetTarget, FileTarget, KafkaTarget, PostgresTarget
from fabric.plan.stream_facts import Stream
from fabric.plan.stream_kinds import changes_results, has_window_columns
from fabric.plan.streams import (
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
from fabric.plan.windowing import WINDOW_END, WINDOW_START, Count, Global


# ---- steps that look at each row alone
def _narrow(node: Filter, stream: Stream) -> Stream:
    return stream


def _renamed(stream: Stream, names: Mapping[str, str]) -> Stream:
    ends = frozenset(names[name] for name in stream.ends if name in names)
    known = all(key in names for key in stream.keys)
    keys = tuple(names[key] for key in stream.keys) if known else ()
    return replace(stream, time=names.get(stream.time, ""), ends=ends, keys=keys)


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
        raise mended(
            "a stream counts as endless, so it can't be materialised", replace(node, mode="auto")
        )
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
        windowed = (WINDOW_START, WINDOW_END) if has_window_columns(node) else ()
        return replace(after, keys=(*map(output_name, node.keys), *windowed))
    if has_window_columns(node) and node.time:
        return replace(after, time=WINDOW_END, ends=frozenset((WINDOW_END,)))
    return replace(after, time=node.closes, ends=frozenset(filter(None, (node.closes,))))


def _deduplicate(node: Deduplicate, stream: Stream) -> Stream:
    _append_only(stream, "deduplicate")
    _check_waiting(node, stream)
    keys = tuple(kept_names(node.keys).values())
    return replace(stream, split=False, changes=changes_results(node), keys=keys)


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
    assert isinstance(node.input, StreamScan | Watermark | Keyed)  # else its schema was refused
    return Stream(timed=isinstance(node.input, Keyed))


def _lookup_join(node: LookupJoin, stream: Stream | None, table: Stream | None) -> Stream:
    if table is not None or stream is None:
        raise _two_streams() if stream is not None else _turned_round()
    names = schema_of(node).names
    return _renamed(stream, {n: n for n in schema_of(node.input).names if n in names})


def _changes(node: Changes, stream: Stream) -> Stream:
    return replace(stream, changes=False, split=False)


def _sink(node: Sink, stream: Stream) -> Stream:
    target = node.target
    if isinstance(target, DatasetTarget) and target.kind:
        _upserts(target.keys, stream)
    if stream.changes:
        raise PlanError(
            "these results change, and what is written can't be taken back; write: "
            f".changes().{target_text(target)}, which writes each change as a row with its kind"
        )
    if isinstance(target, KafkaTarget) and target.kind:
        _upserts(target.key, stream)
    if isinstance(target, FileTarget):
        way = f"write_stream({quoted(target.path)}, format={quoted(target.format)})"
        raise PlanError(
            f"a stream counts as endless, so no file of it would be finished; write: .{way}"
        )
    if isinstance(target, DatasetTarget) and target.mode == "overwrite":
        raise PlanError(
            "a stream adds to a dataset with each checkpoint, so it can't overwrite one; drop it "
            f"first, and write: .{target_text(target)}"
        )
    if isinstance(target, PostgresTarget) and target.mode == "overwrite":
        raise PlanError(
            "a stream adds to a table with each checkpoint, so it can't overwrite one; delete its "
            'rows first, and use mode="append" or key='
        )
    return Stream(sinks=True)


def _upserts(key: Sequence[str], stream: Stream) -> None:
    """Upserts go by what the results are told apart by: else one would overwrite another."""
    if stream.keys and set(key) == set(stream.keys):
        return
    if not stream.keys:
        raise PlanError(
            "these results change, and no columns are left that tell them apart, so they can't be "
            "upserts; keep the keys of the step that changes them, or write .changes() first, "
            "which makes each change a row of its own"
        )
    names = ", ".join(map(quoted, stream.keys))
    raise PlanError(
        f"these results are told apart by {names}, and upserts by "
        f"{', '.join(map(quoted, key)) or 'no column'} would overwrite each other; write: "
        f"key=[{names}]"
    )


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
        raise PlanError(f"a stream counts as endless, so {what}; {way}")

    return refuse


STEPS: dict[type, Callable[..., Any]] = {
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
