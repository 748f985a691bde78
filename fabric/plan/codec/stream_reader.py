"""Nodes of streams out of protobuf messages, whoever wrote them.

One job: the part of `Reader` that knows them; look-ups stay with it. Raises `ValueError` or
`PlanError` for what no writer writes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import pyarrow as pa

from fabric.plan import nodes as n
from fabric.plan import plan_pb2 as pb
from fabric.plan.codec.limits import choice, small
from fabric.plan.codec.stream_places import read_stream_source
from fabric.plan.codec.windows import read_trigger, read_window
from fabric.plan.expr import Expr, SortKey, Udf
from fabric.plan.streams import (
    AssignWindows,
    Changes,
    Deduplicate,
    Domain,
    Keep,
    KeyedProcess,
    Late,
    LookupHow,
    LookupJoin,
    OnBad,
    SideOutput,
    StateField,
    StateKind,
    Strategy,
    StreamAggregate,
    StreamScan,
    TopN,
    TtlOn,
    Watermark,
)
from fabric.plan.windowing import Cumulative, Sliding, Tumbling


class StreamReader(ABC):
    """Reads nodes of streams out of tables that a subclass keeps."""

    @abstractmethod
    def _one(self, index: int) -> Expr: ...

    @abstractmethod
    def _all(self, indices: Iterable[int]) -> tuple[Expr, ...]: ...

    @abstractmethod
    def _keys(self, keys: Iterable[pb.SortKey]) -> tuple[SortKey, ...]: ...

    @abstractmethod
    def _type(self, index: int) -> pa.DataType: ...

    @abstractmethod
    def _schema(self, index: int) -> pa.Schema: ...

    def _stream_scan(self, message: pb.StreamScan, path: str) -> StreamScan:
        return StreamScan(
            read_stream_source(message.source),
            self._schema(message.schema),
            tuple(message.columns.names) if message.HasField("columns") else None,
            message.scan_id,
            path=path,
        )

    def _lookup_join(
        self, inputs: Sequence[n.Node], message: pb.LookupJoin, path: str
    ) -> LookupJoin:
        return LookupJoin(
            inputs[0],
            inputs[1],
            self._all(message.left_keys),
            self._all(message.right_keys),
            choice(message.how, LookupHow, "how"),
            message.suffix,
            path=path,
        )

    def _stream(self, source: n.Node, kind: str, message: pb.Node, path: str) -> n.Node:
        """A node with one input."""
        match kind:
            case "watermark":
                return self._watermark(source, message.watermark, path)
            case "assign_windows":
                return _assign_windows(source, message.assign_windows, path)
            case "stream_aggregate":
                return self._stream_aggregate(source, message.stream_aggregate, path)
            case "deduplicate":
                return self._deduplicate(source, message.deduplicate, path)
            case "top_n":
                return self._top_n(source, message.top_n, path)
            case "keyed_process":
                return self._keyed_process(source, message.keyed_process, path)
            case "side_output":
                return SideOutput(source, message.side_output, path=path)
            case "changes":
                return Changes(source, message.changes, path=path)
        raise ValueError(f"there is no node {kind}")

    def _watermark(self, source: n.Node, message: pb.Watermark, path: str) -> Watermark:
        return Watermark(
            source,
            message.column,
            small(message.bound_us),
            small(message.idle_us) if message.HasField("idle_us") else None,
            small(message.future_us) if message.HasField("future_us") else None,
            choice(message.strategy, Strategy, "strategy"),
            self._udf(message.function) if message.HasField("function") else None,
            choice(message.on_bad, OnBad, "on_bad"),
            small(message.emit_us),
            small(message.drift_us) if message.HasField("drift_us") else None,
            message.rows,
            path=path,
        )

    def _stream_aggregate(
        self, source: n.Node, message: pb.StreamAggregate, path: str
    ) -> StreamAggregate:
        waiting = message.waiting
        return StreamAggregate(
            source,
            self._all(message.keys),
            self._all(message.aggs),
            read_window(message.window) if message.HasField("window") else None,
            message.time,
            read_trigger(message.trigger),
            small(waiting.lateness_us),
            choice(waiting.late, Late, "late"),
            waiting.closes,
            waiting.kinds,
            path=path,
        )

    def _deduplicate(self, source: n.Node, message: pb.Deduplicate, path: str) -> Deduplicate:
        waiting = message.waiting
        return Deduplicate(
            source,
            self._all(message.keys),
            choice(message.keep, Keep, "keep"),
            message.by,
            small(message.ttl_us),
            waiting.closes,
            small(waiting.lateness_us),
            choice(waiting.late, Late, "late"),
            waiting.kinds,
            message.rows,
            path=path,
        )

    def _top_n(self, source: n.Node, message: pb.TopN, path: str) -> TopN:
        waiting = message.waiting
        return TopN(
            source,
            self._all(message.keys),
            self._keys(message.by),
            small(message.n),
            message.ties,
            message.rank,
            waiting.closes,
            small(waiting.lateness_us),
            choice(waiting.late, Late, "late"),
            waiting.kinds,
            path=path,
        )

    def _keyed_process(self, source: n.Node, message: pb.KeyedProcess, path: str) -> KeyedProcess:
        return KeyedProcess(
            source,
            self._all(message.keys),
            self._udf(message.function),
            self._schema(message.schema),
            tuple(map(self._state, message.states)),
            tuple(choice(timer, Domain, "timers") for timer in message.timers),
            tuple((side.tag, self._schema(side.schema)) for side in message.sides),
            choice(message.on_error, OnBad, "on_error"),
            small(message.timeout_us),
            message.time,
            path=path,
        )

    def _state(self, message: pb.StateField) -> StateField:
        return StateField(
            message.name,
            choice(message.kind, StateKind, "state"),
            self._type(message.type),
            self._type(message.key_type) if message.HasField("key_type") else None,
            self._udf(message.function) if message.HasField("function") else None,
            small(message.ttl_us),
            choice(message.ttl_on, TtlOn, "ttl_on"),
        )

    def _udf(self, index: int) -> Udf:
        found = self._one(index)
        if not isinstance(found, Udf) or found.args:
            raise ValueError(f"a {type(found).__name__} in the place of a function")
        return found


def _assign_windows(source: n.Node, message: pb.AssignWindows, path: str) -> AssignWindows:
    window = read_window(message.window)
    if not isinstance(window, Tumbling | Sliding | Cumulative):
        raise ValueError(f"a {type(window).__name__} window can't be assigned row by row")
    return AssignWindows(source, message.time, window, path=path)
