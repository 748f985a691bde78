"""A plan out of tables of protobuf messages, whoever wrote them.

One job: rebuild nodes and expressions row by row; an index may only point backwards, every choice
is looked up, numbers are in range. Raises `ValueError` otherwise; `check` looks at names and types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import pyarrow as pa

from fabric.cancellation import check_wanted
from fabric.plan import nodes as n
from fabric.plan import plan_pb2 as pb
from fabric.plan.expr import (
    Agg,
    Alias,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    Frame,
    IsIn,
    Literal,
    Over,
    SortKey,
    Udf,
)
from fabric.plan.wire.fields import read_node, read_record
from fabric.plan.wire.tables import (
    DEPTH_MAX,
    EXPR_DEPTH_MAX,
    EXPRS_MAX,
    NODES_MAX,
    Depths,
)
from fabric.plan.wire.values import read_value, schema_from_bytes

T = TypeVar("T")
_KINDS = {kind.WIRE: kind for kind in n.NODES}


def _at(table: Sequence[T], index: int, what: str) -> T:
    if index >= len(table):
        raise ValueError(f"{what} {index} of {len(table)} does not exist")
    return table[index]


class Reader:
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
        config = tuple(
            (entry.path, read_record(n.NodeConfig, entry, self)) for entry in self._message.config
        )
        return n.Plan(_at(self._nodes, self._message.root, "root node"), config)

    # ---- expressions
    def exprs(self, indices: Iterable[int]) -> tuple[Expr, ...]:
        """The expressions at these places of the message's table."""
        return tuple(_at(self._exprs, index, "expression") for index in indices)

    def expr(self, index: int) -> Expr:
        """See `WireReader`."""
        return _at(self._exprs, index, "expression")

    def udf(self, index: int) -> Udf:
        """See `WireReader`."""
        found = self.expr(index)
        if not isinstance(found, Udf) or found.args:
            raise ValueError(f"a {type(found).__name__} in the place of a function")
        return found

    def _part(self, message: pb.Expr) -> Expr:
        match message.WhichOneof("kind"):
            case "column":
                return Column(message.column)
            case "literal":
                return self._literal(message.literal)
            case "call":
                return Call(message.call.function, self.exprs(message.call.args))
            case "case":
                return self._case(message.case)
            case "cast":
                cast = message.cast
                dtype = self.dtype(cast.type)
                return Cast(self.expr(cast.input), dtype, getattr(cast, "try"))
            case "is_in":
                values = tuple(self._literal(value) for value in message.is_in.values)
                return IsIn(self.expr(message.is_in.input), values)
            case "alias":
                return Alias(self.expr(message.alias.input), message.alias.name)
            case "agg":
                agg = message.agg
                source = self.expr(agg.input) if agg.HasField("input") else None
                return Agg(agg.function, source, self.exprs(agg.args))
            case "over":
                return self._over(message.over)
            case "udf":
                return read_record(Udf, message.udf, self)
        raise ValueError("an empty expression")

    def dtype(self, index: int) -> pa.DataType:
        """See `WireReader`."""
        return _at(self._types, index, "type")

    def schema(self, index: int) -> pa.Schema:
        """See `WireReader`."""
        return _at(self._schemas, index, "schema")

    def sort_keys(self, keys: Iterable[pb.SortKey]) -> tuple[SortKey, ...]:
        """Sort keys, whose expressions are in the message's table."""
        return tuple(SortKey(self.expr(k.input), k.descending, k.nulls_last) for k in keys)

    def _over(self, message: pb.Over) -> Over:
        agg = self.expr(message.input)
        if not isinstance(agg, Agg):
            raise ValueError(f"a window over a {type(agg).__name__}")
        frame = read_record(Frame, message.frame, self) if message.HasField("frame") else None
        return Over(agg, self.exprs(message.partition_by), self.sort_keys(message.order_by), frame)

    def _literal(self, message: pb.Literal) -> Literal:
        return read_value(message, self.dtype(message.type))

    def _case(self, message: pb.Case) -> Case:
        parts = self.exprs(message.parts)
        if len(parts) % 2 == 0:
            raise ValueError("a case without its otherwise")
        return Case(tuple(zip(parts[:-1:2], parts[1::2], strict=True)), parts[-1])

    # ---- nodes
    def _node(self, message: pb.Node) -> n.Node:
        field = message.WhichOneof("kind")
        if field is None:
            raise ValueError("an empty node")
        kind = _KINDS[field]
        inputs = [_at(self._nodes, index, "node") for index in message.inputs]
        expected = kind.n_inputs(getattr(message, field))
        if expected is not None and len(inputs) != expected:
            raise ValueError(f"a {field} needs {expected} inputs, got {len(inputs)}")
        return read_node(kind, message, inputs, self)


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
