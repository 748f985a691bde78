"""A plan out of tables of protobuf messages, whoever wrote them.

One job: rebuild nodes and expressions row by row; an index may only point backwards, every choice
is looked up, numbers are in range. Raises `ValueError` otherwise; `check` looks at names and types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import pyarrow as pa

from fabric.config import StateBackend
from fabric.plan import nodes as n
from fabric.plan import plan_pb2 as pb
from fabric.plan.codec.limits import (
    DEPTH_MAX,
    EXPR_DEPTH_MAX,
    EXPRS_MAX,
    NODES_MAX,
    Depths,
    choice,
    small,
)
from fabric.plan.codec.places import read_source, read_target
from fabric.plan.codec.stream_reader import StreamReader
from fabric.plan.codec.values import read_value, schema_from_bytes
from fabric.plan.expr import (
    Agg,
    Alias,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    Frame,
    FrameUnit,
    IsIn,
    Literal,
    Over,
    SortKey,
    Udf,
    UdfKind,
)
from fabric.plan.streams import Branches
from fabric.wanted import check_wanted

T = TypeVar("T")
_N_INPUTS = {"scan": 0, "stream_scan": 0, "stage_input": 0, "join": 2, "lookup_join": 2}
_ANY_INPUTS = ("union", "branches")


def _at(table: Sequence[T], index: int, what: str) -> T:
    if index >= len(table):
        raise ValueError(f"{what} {index} of {len(table)} does not exist")
    return table[index]


class Reader(StreamReader):
    """Reads one plan message."""

    def __init__(self, message: pb.Plan) -> None:
        self._message = message
        self._types: list[pa.DataType] = schema_from_bytes(message.types).types
        self._schemas = [schema_from_bytes(data) for data in message.schemas]
        self._exprs: list[Expr] = []
        self._nodes: list[n.Node] = []

    def plan(self) -> n.Plan:
        """The whole plan."""
        depths = Depths("expression", EXPRS_MAX, EXPR_DEPTH_MAX)
        for expr in self._message.exprs:
            check_wanted()
            depths.add(_expr_indices(expr))
            self._exprs.append(self._part(expr))
        depths = Depths("node", NODES_MAX, DEPTH_MAX)
        for node in self._message.nodes:
            check_wanted()
            depths.add(node.inputs)
            self._nodes.append(self._node(node))
        config = tuple((entry.path, _config(entry)) for entry in self._message.config)
        return n.Plan(_at(self._nodes, self._message.root, "root node"), config)

    # ---- expressions
    def _all(self, indices: Iterable[int]) -> tuple[Expr, ...]:
        return tuple(_at(self._exprs, index, "expression") for index in indices)

    def _one(self, index: int) -> Expr:
        return _at(self._exprs, index, "expression")

    def _part(self, message: pb.Expr) -> Expr:
        match message.WhichOneof("kind"):
            case "column":
                return Column(message.column)
            case "literal":
                return self._literal(message.literal)
            case "call":
                return Call(message.call.function, self._all(message.call.args))
            case "case":
                return self._case(message.case)
            case "cast":
                cast = message.cast
                dtype = self._type(cast.type)
                return Cast(self._one(cast.input), dtype, getattr(cast, "try"))
            case "is_in":
                values = tuple(self._literal(value) for value in message.is_in.values)
                return IsIn(self._one(message.is_in.input), values)
            case "alias":
                return Alias(self._one(message.alias.input), message.alias.name)
            case "agg":
                agg = message.agg
                source = self._one(agg.input) if agg.HasField("input") else None
                return Agg(agg.function, source, self._all(agg.args))
            case "over":
                return self._over(message.over)
            case "udf":
                udf = message.udf
                dtype = self._type(udf.type)
                kind = choice(udf.kind, UdfKind, "kind")
                return Udf(udf.name, self._all(udf.args), dtype, kind, udf.payload, udf.mac)
        raise ValueError("an empty expression")

    def _type(self, index: int) -> pa.DataType:
        return _at(self._types, index, "type")

    def _schema(self, index: int) -> pa.Schema:
        return _at(self._schemas, index, "schema")

    def _keys(self, keys: Iterable[pb.SortKey]) -> tuple[SortKey, ...]:
        return tuple(SortKey(self._one(k.input), k.descending, k.nulls_last) for k in keys)

    def _over(self, message: pb.Over) -> Over:
        agg = self._one(message.input)
        if not isinstance(agg, Agg):
            raise ValueError(f"a window over a {type(agg).__name__}")
        frame = _frame(message.frame) if message.HasField("frame") else None
        return Over(agg, self._all(message.partition_by), self._keys(message.order_by), frame)

    def _literal(self, message: pb.Literal) -> Literal:
        return read_value(message, self._type(message.type))

    def _case(self, message: pb.Case) -> Case:
        parts = self._all(message.parts)
        if len(parts) % 2 == 0:
            raise ValueError("a case without its otherwise")
        return Case(tuple(zip(parts[:-1:2], parts[1::2], strict=True)), parts[-1])

    # ---- nodes
    def _node(self, message: pb.Node) -> n.Node:
        kind = message.WhichOneof("kind")
        if kind is None:
            raise ValueError("an empty node")
        inputs = [_at(self._nodes, index, "node") for index in message.inputs]
        is_placed = kind == "sort" and message.sort.phase == "place"
        expected = _N_INPUTS.get(kind, 1 + is_placed)
        if len(inputs) != expected and kind not in _ANY_INPUTS:
            raise ValueError(f"a {kind} needs {expected} inputs, got {len(inputs)}")
        path = message.path
        match kind:
            case "scan":
                return self._scan(message.scan, path)
            case "stream_scan":
                return self._stream_scan(message.stream_scan, path)
            case "lookup_join":
                return self._lookup_join(inputs, message.lookup_join, path)
            case "stage_input":
                leaf = message.stage_input
                return n.StageInput(leaf.edge, self._schema(leaf.schema), path=path)
            case "join":
                return self._join(inputs, message.join, path)
            case "union":
                return n.Union(tuple(inputs), path=path)
            case "branches":
                return Branches(tuple(inputs), path=path)
            case "sort":
                return self._sort(inputs, message.sort, path)
        return self._unary(inputs[0], kind, message, path)

    def _scan(self, message: pb.Scan, path: str) -> n.Node:
        return n.Scan(
            read_source(message.source),
            self._schema(message.schema),
            tuple(message.columns.names) if message.HasField("columns") else None,
            self._one(message.predicate) if message.HasField("predicate") else None,
            message.scan_id,
            small(message.limit) if message.HasField("limit") else None,
            path=path,
        )

    def _join(self, inputs: Sequence[n.Node], message: pb.Join, path: str) -> n.Node:
        return n.Join(
            inputs[0],
            inputs[1],
            self._all(message.left_keys),
            self._all(message.right_keys),
            choice(message.how, n.JoinHow, "how"),
            message.suffix,
            choice(message.strategy, n.JoinStrategy, "strategy"),
            self._one(message.condition) if message.HasField("condition") else None,
            path=path,
        )

    def _sort(self, inputs: Sequence[n.Node], message: pb.Sort, path: str) -> n.Node:
        return n.Sort(
            inputs[0],
            self._keys(message.keys),
            choice(message.phase, n.SortPhase, "phase"),
            inputs[1] if len(inputs) == 2 else None,
            message.n_ranges,
            path=path,
        )

    def _unary(self, source: n.Node, kind: str, message: pb.Node, path: str) -> n.Node:
        match kind:
            case "filter":
                return n.Filter(source, self._one(message.filter), path=path)
            case "select":
                return n.Select(source, self._all(message.select.exprs), path=path)
            case "with_columns":
                with_columns = message.with_columns
                exprs = self._all(with_columns.exprs)
                return n.WithColumns(source, exprs, with_columns.replace, path=path)
            case "aggregate":
                return self._aggregate(source, message.aggregate, path)
            case "window":
                return n.Window(source, self._all(message.window.exprs), path=path)
            case "explode":
                explode = message.explode
                return n.Explode(source, explode.column, explode.outer, explode.position, path=path)
            case "limit":
                limit = message.limit
                return n.Limit(source, small(limit.n), small(limit.offset), path=path)
            case "distinct":
                return n.Distinct(source, path=path)
            case "exchange":
                return _exchange(source, message.exchange, path)
            case "sink":
                return n.Sink(source, read_target(message.sink.target), path=path)
            case _:
                return self._stream(source, kind, message, path)

    def _aggregate(self, source: n.Node, message: pb.Aggregate, path: str) -> n.Node:
        phase = choice(message.phase, n.AggregatePhase, "phase")
        keys, aggs = self._all(message.keys), self._all(message.aggs)
        return n.Aggregate(source, keys, aggs, phase, path=path)


def _frame(message: pb.Frame) -> Frame:
    return Frame(
        choice(message.unit, FrameUnit, "unit"),
        message.start if message.HasField("start") else None,
        message.end if message.HasField("end") else None,
    )


def _exchange(source: n.Node, message: pb.Exchange, path: str) -> n.Node:
    return n.Exchange(
        source,
        choice(message.kind, n.ExchangeKind, "kind"),
        tuple(message.keys),
        message.n_partitions,
        choice(message.mode, n.ExchangeMode, "mode"),
        choice(message.compression or "none", n.Compression, "compression"),
        path=path,
    )


def _config(message: pb.Config) -> n.NodeConfig:
    mode = message.exchange if message.HasField("exchange") else None
    codec = message.compression if message.HasField("compression") else None
    state = message.state if message.HasField("state") else None
    return n.NodeConfig(
        parallelism=message.parallelism if message.HasField("parallelism") else None,
        exchange=None if mode is None else choice(mode, n.ExchangeMode, "exchange"),
        buffer_batches=message.buffer_batches if message.HasField("buffer_batches") else None,
        compression=None if codec is None else choice(codec, n.Compression, "compression"),
        latency_us=message.latency_us if message.HasField("latency_us") else None,
        state=None if state is None else choice(state, StateBackend, "state"),
        state_memory=message.state_memory if message.HasField("state_memory") else None,
    )


def _expr_indices(message: pb.Expr) -> Sequence[int]:
    """The rows that an expression row points to."""
    match message.WhichOneof("kind"):
        case "call":
            return message.call.args
        case "case":
            return message.case.parts
        case "cast":
            return (message.cast.input,)
        case "is_in":
            return (message.is_in.input,)
        case "alias":
            return (message.alias.input,)
        case "agg":
            source = (message.agg.input,) if message.agg.HasField("input") else ()
            return (*source, *message.agg.args)
        case "over":
            over = message.over
            return (over.input, *over.partition_by, *(key.input for key in over.order_by))
        case "udf":
            return message.udf.args
        case _:
            return ()
