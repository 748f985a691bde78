"""A join in which null equals null: by the hash of the keys, which takes null as a value.

    Select(columns of a plain join)
      Join(hash(left keys) == hash(right keys), where left keys <=> right keys)
        L
        Select(R's columns, keys beside them)

One job: ``join(..., nulls_equal=True)``.
"""

from __future__ import annotations

from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.mend import free_name
from fabric.plan.nodes.join import JoinColumn, output_columns
from fabric.plan.schema import schema_of, type_of
from fabric.plan.types import common_type


def null_safe(join: nodes.Join) -> nodes.Node:
    """`join` with keys of which null equals null."""
    if join.condition is not None:
        raise PlanError("join: nulls_equal goes with keys alone; leave where out, and filter")
    left, right = schema_of(join.left), schema_of(join.right)
    columns = output_columns(join, left, right)
    taken = [*left.names, *right.names, *(column.name for column in columns)]
    renamed: dict[str, str] = {}
    for name in right.names:
        renamed[name] = free_name(f"__{name}", [*taken, *renamed.values()])
    keys = [free_name(f"__key_{i}", taken) for i in range(len(join.right_keys))]
    beside = nodes.WithColumns(
        join.right,
        tuple(plan.Alias(key, name) for key, name in zip(join.right_keys, keys, strict=True)),
        path="join_*/keys",
    )
    exprs: tuple[plan.Expr, ...] = (
        *(plan.Alias(plan.Column(name), renamed[name]) for name in right.names),
        *(plan.Column(name) for name in keys),
    )
    other = nodes.Select(beside, exprs, path="join_*/right")
    hashes, equal = [], None
    for mine, name in zip(join.left_keys, keys, strict=True):
        theirs = plan.Column(name)
        types = type_of(mine, left), type_of(theirs, schema_of(other))
        common = common_type(*types)
        if common is None:
            raise PlanError(f"join: {types[0]} and {types[1]} can't be made equal; cast one side")
        pair = (plan.Cast(mine, common), plan.Cast(theirs, common))
        hashes.append(pair)
        same = plan.Call("eq_null_safe", (mine, theirs))
        equal = same if equal is None else plan.Call("and", (equal, same))
    made = nodes.Join(
        join.left, other,
        (plan.Call("hash", tuple(mine for mine, _ in hashes)),),
        (plan.Call("hash", tuple(theirs for _, theirs in hashes)),),
        join.how, join.suffix, join.strategy, equal, path="join_*/join",
    )  # fmt: skip
    if join.how in ("semi", "anti"):
        return made
    return nodes.Select(made, tuple(_output(column, renamed) for column in columns), path="join_*")


def _output(column: JoinColumn, renamed: dict[str, str]) -> plan.Expr:
    found: plan.Expr = plan.Column(renamed[column.source] if column.right else column.source)
    if column.merged is not None:
        other = plan.Column(renamed[column.merged])
        values = (plan.Cast(found, column.dtype), plan.Cast(other, column.dtype))
        found = plan.Call("coalesce", values)
    return plan.Alias(found, column.name)
