"""Set operations as a union and an aggregate, so that nulls are equal and each side is read once.

    Select(columns)
      Filter(__left > 0 and __right > 0)            except: and __right == 0
        Aggregate(columns; max(left), max(right))
          Union
            Select(columns, 1, 0)   Select(columns, 0, 1)
              X                       Y

The ``_all`` forms first number equal rows on each side: then every row is different.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from fabric.clients.dataframe.names import call_text
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.faults import listed, nearest
from fabric.plan.mend import free_name
from fabric.plan.schema import schema_of

_ZERO, _ONE = plan.Literal(0, pa.int32()), plan.Literal(1, pa.int32())


def compared(
    left: nodes.Node, right: nodes.Node, names: Sequence[str], verb: str, *, both: bool
) -> nodes.Node:
    """The different rows of `left` that are in `right` too, or are not; columns by position."""
    taken = schema_of(left).names
    mine, theirs = free_name("__left", taken), free_name("__right", taken)
    sides = (
        _marked(left, taken, ((mine, _ONE), (theirs, _ZERO)), verb),
        _marked(right, taken, ((mine, _ZERO), (theirs, _ONE)), verb),
    )
    union = nodes.Union(sides, path=f"{verb}_*/union")
    flags = tuple(plan.Alias(plan.Agg("max", plan.Column(f)), f) for f in (mine, theirs))
    keys = tuple(plan.Column(name) for name in taken)
    counted = nodes.Aggregate(union, keys, flags, path=f"{verb}_*/aggregate")
    wanted = _ONE if both else _ZERO
    test = plan.Call("and", (_equals(mine, _ONE), _equals(theirs, wanted)))
    kept = nodes.Filter(counted, test, path=f"{verb}_*/filter")
    return nodes.Select(kept, tuple(plan.Column(name) for name in names), path=f"{verb}_*")


def numbered(source: nodes.Node, verb: str) -> nodes.Node:
    """`source` with a column that numbers equal rows."""
    names = schema_of(source).names
    keys = tuple(plan.Column(name) for name in names)
    over = plan.Over(plan.Agg("row_number", None), keys, (plan.SortKey(_ZERO),))
    number = plan.Alias(over, free_name("__number", names))
    return nodes.Window(source, (number,), path=f"{verb}_*/window")


def by_name(inputs: Sequence[nodes.Node], allow_missing: bool) -> tuple[nodes.Node, ...]:
    """`inputs` with the same columns in the same order; what one lacks is null when allowed."""
    first = schema_of(inputs[0]).names
    names = list(dict.fromkeys(name for node in inputs for name in schema_of(node).names))
    return tuple(
        _with_names(node, names, first, number, allow_missing)
        for number, node in enumerate(inputs, 1)
    )


def _with_names(
    node: nodes.Node, names: list[str], first: list[str], number: int, allow_missing: bool
) -> nodes.Node:
    here = schema_of(node).names
    if here == names:
        return node
    missing = [name for name in names if name not in here]
    if missing and not allow_missing:
        raise _lacks(missing, here, first, number)
    null = plan.Literal(None, pa.null())
    exprs = (plan.Column(name) if name in here else plan.Alias(null, name) for name in names)
    return nodes.Select(node, tuple(exprs), path="union_by_name_*/select")


def _lacks(missing: list[str], here: list[str], first: list[str], number: int) -> PlanError:
    near = nearest(missing[0], [name for name in here if name not in first])
    renamed = call_text("rename", {near: missing[0]})
    line = f"other{renamed}" if near and number > 1 else "other, allow_missing=True"
    return PlanError(
        f"union_by_name: input {number} has no {listed(missing)}; its columns are {listed(here)}; "
        f"write: .union_by_name({line})"
    )


def _marked(
    node: nodes.Node, names: Sequence[str], marks: Sequence[tuple[str, plan.Expr]], verb: str
) -> nodes.Node:
    """The columns of `node` under `names`, and `marks` after them."""
    own = schema_of(node).names
    columns = (
        plan.Column(mine) if mine == name else plan.Alias(plan.Column(mine), name)
        for mine, name in zip(own, names, strict=True)
    )
    marked = (plan.Alias(value, name) for name, value in marks)
    return nodes.Select(node, (*columns, *marked), path=f"{verb}_*/mark")


def _equals(name: str, value: plan.Expr) -> plan.Expr:
    return plan.Call("eq", (plan.Column(name), value))
