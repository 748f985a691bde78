"""``col("address.city")``: the field of a struct, where no column is called so.

One job: `with_fields`.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.plan import expr as plan
from fabric.plan.nodes import Aggregate, Filter, Node, Select, Sort, WithColumns
from fabric.plan.schema import schema_of
from fabric.plan.types import is_struct, plain
from fabric.plan.walk import map_exprs, rewrite_expr


def with_fields(node: Node) -> Node:
    """`node` with fields of structs for the dotted names that are no columns of its input."""
    if not isinstance(node, Select | WithColumns | Filter | Aggregate | Sort):
        return node
    exprs = node.expressions
    if not any("." in name for expr in exprs for name in plan.columns_of(expr)):
        return node
    schema = schema_of(node.input)

    def field(expr: plan.Expr) -> plan.Expr:
        made = rewrite_expr(expr, lambda part: _field(part, schema))
        if isinstance(expr, plan.Column) and made is not expr and not isinstance(node, Sort):
            return plan.Alias(made, expr.name.rsplit(".", 1)[1])
        return made

    return map_exprs(node, field)


def _field(part: plan.Expr, schema: pa.Schema) -> plan.Expr:
    if not isinstance(part, plan.Column) or part.name in schema.names:
        return part
    words = part.name.split(".")
    for n in range(len(words) - 1, 0, -1):
        name = ".".join(words[:n])
        if name in schema.names:
            found: plan.Expr = plan.Column(name)
            dtype = plain(schema.field(name).type)
            for word in words[n:]:
                if not is_struct(dtype) or dtype.get_field_index(word) < 0:
                    return part
                found = plan.Call("struct_field", (found, plan.Literal(word, pa.string())))
                dtype = plain(dtype.field(word).type)
            return found
    return part
