"""The columns that users never see, where a step above needs them.

    StreamAggregate(…)              StreamAggregate(…)
      Select(k, ts)             =>    Select(k, ts, __watermark)
        Watermark(ts)                   Watermark(ts, rows)

One job: `with_hidden`. A row's own watermark goes from `Watermark` to the first step that asks
whether rows are late; its kind from the step whose results change to where changes are shown. Steps
between pass them on by name, wherever they stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.columns import visible
from fabric.plan.expr import Alias, Column, Expr, Literal
from fabric.plan.nodes import (
    Changes,
    Groups,
    KeyedProcess,
    LookupJoin,
    Match,
    Node,
    Select,
    SideOutput,
    Sink,
    StreamAggregate,
    TwoStreams,
    Union,
    UpdatingJoin,
    Watermark,
)
from fabric.plan.schema import schema_of
from fabric.plan.stream import HIDDEN, KIND, WATERMARK
from fabric.plan.walk import walk

_INSERT = Alias(Literal(0, pa.int8()), KIND)


def with_hidden(root: Node) -> Node:
    """The plan below `root` with hidden columns; its own output has none.

    Raises `PlanError` when results that change would leave the job as if they did not.
    """
    wanted = _wanted(root)
    done: dict[int, Node] = {}
    for node in walk(root):
        below = tuple(done[id(child)] for child in node.children)
        done[id(node)] = _made(node, below, id(node) in wanted)
    if KIND in schema_of(done[id(root)]).names:
        raise PlanError(
            "these results change, and rows that were given out can't be taken back; write: "
            ".changes(), which makes each change a row with its kind",
            node=root.path,
        )
    return _bare(done[id(root)], HIDDEN)


def _wanted(root: Node) -> frozenset[int]:
    """By ``id``, the steps whose rows are asked for their own watermark."""
    found: set[int] = set()
    for node in reversed(list(walk(root))):
        match node:
            case StreamAggregate(time=time, closes=closes):
                asks = bool(time or closes)
            case Groups(closes=closes, gives_rows=gives_rows):
                asks = bool(closes) or (gives_rows and id(node) in found)
            case TwoStreams() | Match():
                asks = not isinstance(node, UpdatingJoin)
            case KeyedProcess() | SideOutput() | Changes() | Sink():
                asks = False
            case _:
                asks = id(node) in found
        if asks:
            below = node.children[:1] if isinstance(node, LookupJoin) else node.children
            found.update(map(id, below))
    return frozenset(found)


def _made(node: Node, below: tuple[Node, ...], is_wanted: bool) -> Node:
    """`node` over inputs with hidden columns."""
    match node:
        case Watermark():
            return replace(node, input=below[0], rows=is_wanted)
        case Select(exprs=exprs):
            hidden = _hidden_of(below[0], HIDDEN if is_wanted else (KIND,))
            return replace(node, input=below[0], exprs=(*exprs, *hidden))
        case Union():
            return node.with_children(_aligned(node, below))
        case Groups(gives_rows=True):
            rows = is_wanted and WATERMARK in schema_of(below[0]).names
            return node.with_fields(input=below[0], kinds=node.changes_results, rows=rows)
        case Groups():
            return node.with_fields(input=below[0], kinds=node.changes_results)
        case Match():
            return replace(node, input=below[0], endless=True)
        case KeyedProcess() | Sink():
            return node.with_children(tuple(_bare(each, HIDDEN) for each in below))
        case UpdatingJoin():
            left, right = (_bare(each, (WATERMARK,)) for each in below)
            return replace(node, left=left, right=right, kinds=True)
        case Changes():
            return node.with_children((_bare(below[0], (WATERMARK,)),))
        case _:
            return node.with_children(below)


def _hidden_of(node: Node, names: Sequence[str]) -> list[Expr]:
    there = schema_of(node).names
    return [Column(name) for name in names if name in there]


def _aligned(union: Union, below: Sequence[Node]) -> tuple[Node, ...]:
    """Inputs with the same hidden columns at the same places.

    Rows that can't change are inserts. Where some rows don't know their watermark, none are asked.
    """
    known = [set(schema_of(node).names) for node in below]
    hidden = [WATERMARK] * all(WATERMARK in names for names in known)
    hidden += [KIND] * any(KIND in names for names in known)
    columns = [(*visible(schema_of(node)), *((name, None) for name in hidden)) for node in below]
    aligned = []
    for number, (node, wanted) in enumerate(zip(below, columns, strict=True), 1):
        names = [name for name, _ in wanted]
        if schema_of(node).names == names:
            aligned.append(node)
            continue
        exprs: list[Expr] = [
            _INSERT if name == KIND and KIND not in known[number - 1] else Column(name)
            for name in names
        ]
        aligned.append(Select(node, tuple(exprs), path=f"{union.path}/hidden_{number}"))
    return tuple(aligned)


def _bare(node: Node, names: Sequence[str]) -> Node:
    """`node` without these hidden columns."""
    there = schema_of(node).names
    if not any(name in there for name in names):
        return node
    kept = tuple(Column(name) for name in there if name not in names)
    return Select(node, kept, path=f"{node.path}/visible")
