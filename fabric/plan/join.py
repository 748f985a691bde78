"""What a join puts out, and which joins are refused.

One job: the output columns of a join, each with the side it comes from, so that every engine names
them alike: left columns, then (inner, left) right ones. A right key is not put out again where the
left key at its place is a column of the same name; another right column that the left side has too
gets the suffix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.expr import Agg, Cast, Column, Expr, output_name
from fabric.plan.faults import ExprFault, quoted
from fabric.plan.infer import infer
from fabric.plan.mend import mended
from fabric.plan.nodes import Join
from fabric.plan.types import common_type, is_comparable, is_string
from fabric.plan.walk import walk_expr


@dataclass(frozen=True, slots=True)
class JoinColumn:
    """One output column: `source` is its name on the `right` or left side."""

    name: str
    source: str
    right: bool
    dtype: pa.DataType


def output_columns(node: Join, left: pa.Schema, right: pa.Schema) -> list[JoinColumn]:
    """The output columns of `node` in order."""
    columns = [JoinColumn(f.name, f.name, False, f.type) for f in left]
    if node.how in ("semi", "anti"):
        return columns
    merged = {
        r.name
        for l, r in zip(node.left_keys, node.right_keys, strict=True)  # noqa: E741
        if isinstance(l, Column) and isinstance(r, Column) and l.name == r.name
    }
    taken = set(left.names)
    for field in right:
        if field.name not in merged:
            name = field.name + node.suffix if field.name in taken else field.name
            columns.append(JoinColumn(name, field.name, True, field.type))
    return columns


def key_types(node: Join, left: pa.Schema, right: pa.Schema) -> list[pa.DataType]:
    """The type both sides of each key pair are cast to before they are compared."""
    types = []
    for index in range(len(node.left_keys)):
        a = _key_type(node.left_keys[index], left, "left")
        b = _key_type(node.right_keys[index], right, "right")
        common = common_type(a, b)
        if common is None:
            raise _no_common(node, index, a, b)
        types.append(common)
    return types


def join_columns(node: Join, left: pa.Schema, right: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Names and types of the output; raises `PlanError` and `ExprFault`."""
    if not node.left_keys or len(node.left_keys) != len(node.right_keys):
        raise PlanError(
            f"a join needs as many keys on both sides, at least one; got {len(node.left_keys)} "
            f'left and {len(node.right_keys)} right; write: .join(other, on="id")'
        )
    key_types(node, left, right)
    columns = output_columns(node, left, right)
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            suffix = _free_suffix(node, left, right)
            raise mended(
                f"the join would put out two columns called {quoted(name)}",
                replace(node, suffix=suffix),
            )
    return [(column.name, column.dtype) for column in columns]


def _key_type(key: Expr, schema: pa.Schema, side: str) -> pa.DataType:
    if any(isinstance(part, Agg) for part in walk_expr(key)):
        raise PlanError(f"a join key can't be an aggregate; aggregate the {side} side before")
    try:
        dtype = infer(key, schema)
    except ExprFault as fault:
        raise ExprFault(f"{side} side: {fault.message}", fault.old, fault.new) from None
    if not is_comparable(dtype):
        raise PlanError(f"a join can't compare values of {quoted(output_name(key))}: {dtype}")
    return dtype


def _no_common(node: Join, index: int, a: pa.DataType, b: pa.DataType) -> PlanError:
    """The error for key types that can't be made equal; the string side is cast."""
    left, right = node.left_keys[index], node.right_keys[index]
    pair = (Cast(left, b), right) if is_string(a) else (left, Cast(right, a))
    after = index + 1
    line = replace(
        node,
        left_keys=(*node.left_keys[:index], pair[0], *node.left_keys[after:]),
        right_keys=(*node.right_keys[:index], pair[1], *node.right_keys[after:]),
    )
    names = f"{quoted(output_name(left))} is {a} and {quoted(output_name(right))} is {b}"
    return mended(f"the join keys can't be compared: {names}", line)


def _free_suffix(node: Join, left: pa.Schema, right: pa.Schema) -> str:
    number = 2
    while True:
        suffix = f"{node.suffix}_{number}"
        names = [c.name for c in output_columns(replace(node, suffix=suffix), left, right)]
        if len(set(names)) == len(names):
            return suffix
        number += 1
