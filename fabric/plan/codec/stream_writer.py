"""Nodes of streams as protobuf messages.

One job: the part of `Writer` that knows them; numbering stays with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import pyarrow as pa

from fabric.plan import nodes as n
from fabric.plan import plan_pb2 as pb
from fabric.plan.codec.stream_places import write_stream_source
from fabric.plan.codec.windows import write_trigger, write_window
from fabric.plan.expr import Expr, SortKey
from fabric.plan.streams import (
    AssignWindows,
    Branches,
    Changes,
    Deduplicate,
    KeyedProcess,
    LookupJoin,
    SideOutput,
    StateField,
    StreamAggregate,
    StreamScan,
    TopN,
    Watermark,
)


class StreamWriter(ABC):
    """Writes nodes of streams into tables that a subclass keeps."""

    @abstractmethod
    def _expr(self, root: Expr) -> int: ...

    @abstractmethod
    def _all(self, exprs: Iterable[Expr]) -> list[int]: ...

    @abstractmethod
    def _keys(self, keys: Iterable[SortKey]) -> list[pb.SortKey]: ...

    @abstractmethod
    def _type(self, dtype: pa.DataType) -> int: ...

    @abstractmethod
    def _schema(self, schema: pa.Schema) -> int: ...

    def _stream(self, node: n.Node, message: pb.Node) -> None:
        match node:
            case StreamScan():
                message.stream_scan.CopyFrom(self._stream_scan(node))
            case Watermark():
                message.watermark.CopyFrom(self._watermark(node))
            case AssignWindows(time=time, window=window):
                found = pb.AssignWindows(time=time, window=write_window(window))
                message.assign_windows.CopyFrom(found)
            case StreamAggregate():
                message.stream_aggregate.CopyFrom(self._stream_aggregate(node))
            case Deduplicate():
                message.deduplicate.CopyFrom(self._deduplicate(node))
            case TopN():
                message.top_n.CopyFrom(self._top_n(node))
            case KeyedProcess():
                message.keyed_process.CopyFrom(self._keyed_process(node))
            case SideOutput(tag=tag):
                message.side_output = tag
            case LookupJoin():
                message.lookup_join.CopyFrom(self._lookup_join(node))
            case Changes(column=column):
                message.changes = column
            case Branches():
                message.branches.SetInParent()
            case _:
                raise ValueError(f"a {type(node).__name__} is not a plan node")

    def _stream_scan(self, node: StreamScan) -> pb.StreamScan:
        return pb.StreamScan(
            source=write_stream_source(node.source),
            schema=self._schema(node.schema),
            columns=None if node.columns is None else pb.Names(names=node.columns),
            scan_id=node.scan_id,
        )

    def _watermark(self, node: Watermark) -> pb.Watermark:
        return pb.Watermark(
            column=node.column,
            bound_us=node.bound_us,
            idle_us=node.idle_us,
            future_us=node.future_us,
            strategy=node.strategy,
            function=None if node.function is None else self._expr(node.function),
            on_bad=node.on_bad,
            emit_us=node.emit_us,
            drift_us=node.drift_us,
            rows=node.rows,
        )

    def _stream_aggregate(self, node: StreamAggregate) -> pb.StreamAggregate:
        return pb.StreamAggregate(
            keys=self._all(node.keys),
            aggs=self._all(node.aggs),
            window=None if node.window is None else write_window(node.window),
            time=node.time,
            trigger=write_trigger(node.trigger),
            waiting=_waiting(node),
        )

    def _deduplicate(self, node: Deduplicate) -> pb.Deduplicate:
        return pb.Deduplicate(
            keys=self._all(node.keys),
            keep=node.keep,
            by=node.by,
            ttl_us=node.ttl_us,
            waiting=_waiting(node),
            rows=node.rows,
        )

    def _top_n(self, node: TopN) -> pb.TopN:
        keys = self._all(node.keys)
        self._all(key.input for key in node.by)
        return pb.TopN(
            keys=keys,
            by=self._keys(node.by),
            n=node.n,
            ties=node.ties,
            rank=node.rank,
            waiting=_waiting(node),
        )

    def _keyed_process(self, node: KeyedProcess) -> pb.KeyedProcess:
        return pb.KeyedProcess(
            keys=self._all(node.keys),
            function=self._expr(node.function),
            schema=self._schema(node.schema),
            states=[self._state(state) for state in node.states],
            timers=node.timers,
            sides=[pb.Side(tag=tag, schema=self._schema(side)) for tag, side in node.sides],
            on_error=node.on_error,
            timeout_us=node.timeout_us,
            time=node.time,
        )

    def _state(self, state: StateField) -> pb.StateField:
        return pb.StateField(
            name=state.name,
            kind=state.kind,
            type=self._type(state.dtype),
            key_type=None if state.key_dtype is None else self._type(state.key_dtype),
            function=None if state.function is None else self._expr(state.function),
            ttl_us=state.ttl_us,
            ttl_on=state.ttl_on,
        )

    def _lookup_join(self, node: LookupJoin) -> pb.LookupJoin:
        return pb.LookupJoin(
            left_keys=self._all(node.left_keys),
            right_keys=self._all(node.right_keys),
            how=node.how,
            suffix=node.suffix,
        )


def _waiting(node: StreamAggregate | Deduplicate | TopN) -> pb.Waiting:
    return pb.Waiting(
        closes=node.closes, lateness_us=node.lateness_us, late=node.late, kinds=node.kinds
    )
