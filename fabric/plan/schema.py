"""Names and types of what a node puts out, inferred before anything runs.

One job: `schema_of` and `sides_at` a node, `type_of` an expression. Every field may be null and
carries no metadata, whatever the source said. A node's schema is computed once and remembered while
it lives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from fabric.cancellation import check_wanted
from fabric.errors import PlanError
from fabric.plan.expr import Agg, Alias, Expr
from fabric.plan.faults import ExprFault, quoted
from fabric.plan.infer import infer, infer_agg
from fabric.plan.mend import WRITE, of_fault, substituted
from fabric.plan.node import Node, known_schema, remember_schema
from fabric.plan.python import expr_text
from fabric.plan.walk import postorder
from fabric.plan.zones import check_zones


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
    if (known := known_schema(node)) is not None:
        return known
    for part in _unknown(node):
        check_wanted()
        inputs = [schema_of(child) for child in part.children]
        try:
            found = output_schema(part, inputs)
        except PlanError as error:
            raise error.at(node=(paths or {}).get(id(part), part.path)) from None
        remember_schema(part, found)
    known = known_schema(node)  # perhaps by another task that shares the plan
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


def sides_at(node: Node) -> Mapping[str, pa.Schema]:
    """What a node puts out aside where it stands in a plan, by tag; without hidden columns."""
    return node.side_schemas(schema_of(node.children[0] if node.children else node))


def output_schema(node: Node, inputs: Sequence[pa.Schema]) -> pa.Schema:
    """The schema `node` puts out over `inputs`: fields that may be null, without metadata."""
    try:
        found = node.output(*inputs)
        schema = found if isinstance(found, pa.Schema) else pa.schema(found)
        check_zones(schema)
        return schema
    except ExprFault as fault:
        raise of_fault(fault, node, lambda line: _right(line, inputs)) from None
    except UnicodeEncodeError as error:  # half of a surrogate pair, say
        raise PlanError(f"the name {quoted(error.object[:80])} is not Unicode text") from None
    except UnicodeDecodeError as error:
        raise PlanError(f"the source has a name that is not UTF-8: {error.object[:80]!r}") from None


def _right(node: Node, inputs: Sequence[pa.Schema], tries: int = 8) -> Node | str | None:
    """`node`, mended on where it is refused again; None where that is not known."""
    try:
        node.output(*inputs)
    except ExprFault as fault:
        if fault.old is None or fault.new is None or not tries:
            return None
        return _right(substituted(node, fault.old, fault.new), inputs, tries - 1)
    except PlanError as error:
        return error.message.partition(WRITE)[2] or None
    return node


def _unknown(node: Node) -> list[Node]:
    """The nodes at and below `node`, which has no schema yet, that have none; children first."""
    if all(map(is_known, node.children)):
        return [node]

    def below(part: Node) -> tuple[Node, ...]:
        return () if known_schema(part) is not None else part.children

    return [part for part in postorder(node, below) if known_schema(part) is None]


def is_known(node: Node) -> bool:
    """Whether the schema of `node`, and so of all below it, was found before."""
    return known_schema(node) is not None
