"""Names and types of what a node puts out, inferred before anything runs.

One job: `schema_of` a node and `type_of` an expression. Every field may be null and carries no
metadata, whatever the source said. A node's schema is computed once and remembered while it lives.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan import aggregate
from fabric.plan.expr import Agg, Alias, Expr
from fabric.plan.faults import ExprFault
from fabric.plan.infer import infer, infer_agg
from fabric.plan.nodes import Aggregate, Node
from fabric.plan.python import expr_text
from fabric.plan.rules import output_schema
from fabric.plan.walk import postorder
from fabric.wanted import check_wanted


def schema_of(node: Node, paths: Mapping[int, str] | None = None) -> pa.Schema:
    """What `node` puts out; raises `PlanError` with the path of the node that is wrong.

    Parameters
    ----------
    node
        The root of a plan or of any part of one.
    paths
        Paths by ``id(node)`` for errors, where nodes have none of their own yet.

    Examples
    --------
    >>> from fabric.plan.expr import Column
    >>> from fabric.plan.nodes import Select, StageInput
    >>> source = StageInput(0, pa.schema([("a", pa.int32()), ("b", pa.string())]))
    >>> schema_of(Select(source, (Column("b"),))).names
    ['b']
    """
    if (known := _remembered(node)) is not None:
        return known
    for part in _unknown(node):
        check_wanted()
        inputs = [schema_of(child) for child in part.children]
        try:
            found = output_schema(part, inputs)
        except PlanError as error:
            raise error.at(node=(paths or {}).get(id(part), part.path)) from None
        remember(part, found)
    known = _remembered(node)  # perhaps by another task that shares the plan
    assert known is not None
    return known


def type_of(expr: Expr, schema: pa.Schema) -> pa.DataType:
    """The type of `expr` over `schema`, an aggregate's too; raises `PlanError`.

    >>> from fabric.plan.expr import Call, Column
    >>> type_of(Call("length", (Column("s"),)), pa.schema([("s", pa.string())]))
    DataType(int32)
    """
    inner = expr.input if isinstance(expr, Alias) else expr
    try:
        return infer_agg(inner, schema) if isinstance(inner, Agg) else infer(inner, schema)
    except ExprFault as fault:
        hint = f"; write: {expr_text(fault.new)}" if fault.new is not None else ""
        raise PlanError(fault.message + hint) from None


def partial_schema(node: Aggregate) -> pa.Schema:
    """What the partial phase of `node` puts out: keys, then state columns."""
    return pa.schema(aggregate.partial_columns(node, schema_of(node.input)))


def _unknown(node: Node) -> list[Node]:
    """The nodes at and below `node`, which has no schema yet, that have none; children first."""
    if all(map(is_known, node.children)):
        return [node]

    def below(part: Node) -> tuple[Node, ...]:
        return () if _remembered(part) is not None else part.children

    return [part for part in postorder(node, below) if _remembered(part) is None]


def is_known(node: Node) -> bool:
    """Whether the schema of `node`, and so of all below it, was found before."""
    return _remembered(node) is not None


def _remembered(node: Node) -> pa.Schema | None:
    return getattr(node, "_schema", None)


def remember(node: Node, schema: pa.Schema) -> None:
    """Let `schema_of` answer `schema` for `node`: for copies that differ in their path only."""
    object.__setattr__(node, "_schema", schema)  # a frozen node has room for it
