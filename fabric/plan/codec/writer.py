"""A plan into tables of protobuf messages.

One job: number nodes, expressions, types and schemas, each object once, and write a message a row.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

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
    IsIn,
    Literal,
    Over,
    SortKey,
    Udf,
    children,
)
from fabric.plan.walk import postorder, walk
from fabric.plan.wire.fields import write_node, write_record
from fabric.plan.wire.tables import (
    DEPTH_MAX,
    EXPR_DEPTH_MAX,
    EXPRS_MAX,
    NODES_MAX,
    VERSION,
    Depths,
)
from fabric.plan.wire.values import schema_to_bytes, types_to_bytes, write_value


class Writer:
    """Writes one plan; make a new one for each."""

    def __init__(self) -> None:
        self._message = pb.Plan(version=VERSION)
        self._nodes: dict[int, int] = {}
        self._exprs: dict[int, int] = {}
        self._types: dict[pa.DataType, int] = {}
        self._schemas: dict[bytes, int] = {}
        self._node_depths = Depths("node", NODES_MAX, DEPTH_MAX)
        self._expr_depths = Depths("expression", EXPRS_MAX, EXPR_DEPTH_MAX)

    def plan(self, plan: n.Plan) -> pb.Plan:
        """The whole plan; raises `ValueError` beyond a limit."""
        for node in walk(plan.root):
            inputs = [self._nodes[id(child)] for child in node.children]
            self._node_depths.add(inputs)
            write_node(node, self._message.nodes.add(path=node.path, inputs=inputs), self)
            self._nodes[id(node)] = len(self._nodes)
        self._message.root = self._nodes[id(plan.root)]
        self._message.types = types_to_bytes(list(self._types))
        self._message.schemas.extend(self._schemas)
        for path, config in plan.config:
            write_record(config, self._message.config.add(path=path), self)
        return self._message

    # ---- expressions
    def expr(self, root: Expr) -> int:
        """The index of `root`; it and what is below it are written when they are new."""

        def below(part: Expr) -> tuple[Expr, ...]:
            return () if id(part) in self._exprs else children(part)

        for part in postorder(root, below):
            if id(part) not in self._exprs:
                indices = [self._exprs[id(child)] for child in children(part)]
                self._expr_depths.add(indices)
                self._part(part, indices, self._message.exprs.add())
                self._exprs[id(part)] = len(self._exprs)
        return self._exprs[id(root)]

    def _part(self, part: Expr, below: list[int], message: pb.Expr) -> None:
        match part:
            case Column(name=name):
                message.column = name
            case Literal():
                message.literal.CopyFrom(self._literal(part))
            case Call(function=function):
                message.call.CopyFrom(pb.Call(function=function, args=below))
            case Case():
                message.case.CopyFrom(pb.Case(parts=below))
            case Cast(dtype=dtype, try_=try_):
                message.cast.input = below[0]
                message.cast.type = self.dtype(dtype)
                setattr(message.cast, "try", try_)
            case IsIn(values=values):
                literals = [self._literal(value) for value in values]
                message.is_in.CopyFrom(pb.IsIn(input=below[0], values=literals))
            case Alias(name=name):
                message.alias.CopyFrom(pb.Alias(input=below[0], name=name))
            case Agg(function=function, input=source):
                given = None if source is None else below[0]
                args = below[source is not None :]
                message.agg.CopyFrom(pb.Agg(function=function, input=given, args=args))
            case Over():
                message.over.CopyFrom(self._over(part, below))
            case Udf():
                write_record(part, message.udf, self)
            case _:
                raise ValueError(f"a {type(part).__name__} is not an expression")

    def _keys(self, keys: Iterable[SortKey]) -> list[pb.SortKey]:
        """Sort keys whose expressions were written before."""
        return [
            pb.SortKey(
                input=self._exprs[id(key.input)],
                descending=key.descending,
                nulls_last=key.nulls_last,
            )
            for key in keys
        ]

    def _over(self, over: Over, below: list[int]) -> pb.Over:
        message = pb.Over(
            input=below[0],
            partition_by=below[1 : 1 + len(over.partition_by)],
            order_by=self._keys(over.order_by),
        )
        if over.frame is not None:
            frame = over.frame
            message.frame.CopyFrom(pb.Frame(unit=frame.unit, start=frame.start, end=frame.end))
        return message

    def _literal(self, literal: Literal) -> pb.Literal:
        message = pb.Literal(type=self.dtype(literal.dtype))
        write_value(literal, message)
        return message

    # ---- tables
    def dtype(self, dtype: pa.DataType) -> int:
        """See `WireWriter`."""
        return self._types.setdefault(dtype, len(self._types))

    def schema(self, schema: pa.Schema) -> int:
        """See `WireWriter`."""
        return self._schemas.setdefault(schema_to_bytes(schema), len(self._schemas))
