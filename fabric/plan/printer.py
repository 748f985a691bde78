"""A whole plan as an indented tree, one node a line.

One job: text for people: path, step, output columns and types. A node with two parents is written
out once and referred to by its path after that. A plan that is wrong can be shown as well.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.node import Node
from fabric.plan.paths import display_paths
from fabric.plan.python import expr_text
from fabric.plan.schema import schema_of

__all__ = ["expr_text", "tree"]

_COLUMNS_SHOWN = 4
_STEP_MAX = 72
_LINE_MAX = 132
_INDENT_MAX = 40


def tree(root: Node) -> str:
    """The plan, the root first, each input indented below what reads it.

    >>> from fabric.plan.nodes import Limit, StageInput
    >>> print(tree(Limit(StageInput(0, pa.schema([("a", pa.int32())])), 3)))
    limit_1: .limit(3) -> a: int32
      stage_input_1: stage_input(0) -> a: int32
    """
    paths = display_paths(root)
    lines: list[str] = []
    seen: set[int] = set()
    stack: list[tuple[Node, int]] = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        indent = "  " * min(depth, _INDENT_MAX)
        path = paths[id(node)]
        if id(node) in seen:
            lines.append(f"{indent}{path}: as above")
            continue
        seen.add(id(node))
        lines.append(_line(f"{indent}{path}: ", node))
        stack.extend((child, depth + 1) for child in reversed(node.children))
    return "\n".join(lines)


def _line(head: str, node: Node) -> str:
    text = f"{head}{step_text(node)} -> "
    return text + columns_within(node, _LINE_MAX - len(text))


def columns_within(node: Node, room: int) -> str:
    """Names and types of as many columns as `room` characters hold, but of one at least."""
    texts = [columns_text(node, most) for most in range(_COLUMNS_SHOWN, 0, -1)]
    return next((text for text in texts if len(text) <= room), texts[-1])


def step_text(node: Node, most: int = _STEP_MAX) -> str:
    """The step of `node`, cut to `most` characters, after an argument where there is one."""
    text = node.text()
    if len(text) <= most:
        return text
    cut = text[: most - 4]
    whole, comma, _ = cut.rpartition(", ")
    return f"{whole if comma and len(whole) > most // 2 else cut} ..."


def columns_text(node: Node, most: int = _COLUMNS_SHOWN) -> str:
    """Names and types of the output, cut to `most` columns; "?" when the node is wrong."""
    try:
        schema = schema_of(node)
    except PlanError:
        return "?"
    shown = [
        f"{field.name}: {_type_text(field.type)}"
        for field in map(schema.field, range(min(most, len(schema))))
    ]
    more = [f"{len(schema) - most} more"] if len(schema) > most else []
    return ", ".join(shown + more) or "no columns"


def _type_text(dtype: pa.DataType) -> str:
    text = str(dtype)
    return text if len(text) <= 40 else text[:36] + " ..."
