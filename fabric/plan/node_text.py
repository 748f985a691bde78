"""A node as the method call that makes it: ``.filter(col("delay") > 15)``.

One job: one line of Python for one node, for mended lines, trees and pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fabric.plan.expr import Expr
from fabric.plan.faults import quoted
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Exchange,
    Explode,
    Filter,
    Join,
    Limit,
    Node,
    Scan,
    Select,
    Sink,
    Sort,
    StageInput,
    Union,
    Window,
    WithColumns,
)
from fabric.plan.place_text import source_text, target_text
from fabric.plan.python import column_text, expr_text, sort_key_text
from fabric.plan.stream_kinds import as_join
from fabric.plan.stream_text import STREAM_TEXT
from fabric.plan.streams import LookupJoin


def node_text(node: Node) -> str:
    """The step that makes `node`, as a user would write it after its input.

    >>> import pyarrow as pa
    >>> node_text(Limit(StageInput(0, pa.schema([])), 3))
    '.limit(3)'
    """
    return _TEXT[type(node)](node)


def _columns(exprs: Iterable[Expr]) -> str:
    return ", ".join(column_text(expr) for expr in exprs)


def _scan(node: Scan) -> str:
    text = source_text(node.source)
    if node.predicate is not None:
        text += f".filter({expr_text(node.predicate)})"
    if node.columns is not None:
        text += f".select({', '.join(quoted(name) for name in node.columns)})"
    if node.limit is not None:
        text += f".limit({node.limit})"
    return text


def _aggregate(node: Aggregate) -> str:
    text = f".group_by({_columns(node.keys)})" if node.keys else ""
    text += f".agg({_columns(node.aggs)})"
    return text if node.phase == "single" else f"{text} {node.phase}"


def _join(node: Join) -> str:
    parts = ["other"]
    if not node.left_keys:
        pass
    elif node.left_keys == node.right_keys:
        parts.append(f"on={_one_or_list(node.left_keys)}")
    else:
        parts.append(f"left_on={_one_or_list(node.left_keys)}")
        parts.append(f"right_on={_one_or_list(node.right_keys)}")
    if node.how != "inner":
        parts.append(f'how="{node.how}"')
    if node.condition is not None:
        parts.append(f"where={expr_text(node.condition)}")
    if node.suffix != "_right":
        parts.append(f"suffix={quoted(node.suffix)}")
    if node.strategy != "auto":
        parts.append(f'strategy="{node.strategy}"')
    return f".join({', '.join(parts)})"


def _one_or_list(keys: tuple[Expr, ...]) -> str:
    return _columns(keys) if len(keys) == 1 else f"[{_columns(keys)}]"


def _sort(node: Sort) -> str:
    text = f".sort({', '.join(sort_key_text(key) for key in node.keys)})"
    return text if node.phase == "single" else f"{text} {node.phase}"


def _exchange(node: Exchange) -> str:
    parts = [quoted(key) for key in node.keys]
    if node.n_partitions:
        parts.append(f"n_partitions={node.n_partitions}")
    if node.kind != ("hash" if node.keys else "round_robin"):
        parts.append(f'kind="{node.kind}"')
    if node.mode != "auto":
        parts.append(f'mode="{node.mode}"')
    if node.compression != "none":
        parts.append(f'compression="{node.compression}"')
    return f".exchange({', '.join(parts)})"


def _with_columns(node: WithColumns) -> str:
    return f".with_columns({_columns(node.exprs)}{', replace=True' if node.replace else ''})"


def _explode(node: Explode) -> str:
    parts = [quoted(node.column)]
    if node.outer:
        parts.append("outer=True")
    if node.position:
        parts.append(f"position={quoted(node.position)}")
    return f".explode({', '.join(parts)})"


def _limit(node: Limit) -> str:
    return f".limit({node.n}{f', offset={node.offset}' if node.offset else ''})"


def _union(node: Union) -> str:
    n_others = len(node.inputs) - 1
    others = [f"other_{i + 1}" for i in range(n_others)] if n_others > 1 else ["other"] * n_others
    return f".union({', '.join(others)})"


_TEXT: dict[type, Callable[[Any], str]] = {
    Scan: _scan,
    StageInput: lambda node: f"stage_input({node.edge})",
    Filter: lambda node: f".filter({expr_text(node.predicate)})",
    Select: lambda node: f".select({_columns(node.exprs)})",
    WithColumns: _with_columns,
    Aggregate: _aggregate,
    Join: _join,
    Window: lambda node: f".with_columns({_columns(node.exprs)})",
    Explode: _explode,
    Sort: _sort,
    Limit: _limit,
    Distinct: lambda _: ".distinct()",
    Union: _union,
    Exchange: _exchange,
    Sink: lambda node: f".{target_text(node.target)}",
    LookupJoin: lambda node: _join(as_join(node)),
    **STREAM_TEXT,
}
