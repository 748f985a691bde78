"""From what is wrong with an expression to what the user should write instead.

One job: the `PlanError` of a node, with its mended line as Python code to paste.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from fabric.errors import PlanError
from fabric.plan.expr import Column, Expr, Literal
from fabric.plan.exprs import map_exprs
from fabric.plan.faults import ExprFault
from fabric.plan.node import Node, known_schema
from fabric.plan.python import expr_text, function_text
from fabric.plan.walk import rewrite_expr
from fabric.plan.written import Written, call_around, mended_input

WRITE = "; write: "
_LINE_MAX = 600
_EXPR_MAX = 200
_ARGUMENT = re.compile(r" as argument \d+| on its (left|right)$")
"""Counted among the arguments of a part, which the user did not write."""


def mended(message: str, line: Node | str | None) -> PlanError:
    """The error with the line to write instead, when there is one of bearable length."""
    text = line if line is None or isinstance(line, str) else line.text()
    if text is None or len(text) > _LINE_MAX:
        return PlanError(message)
    return PlanError(f"{message}{WRITE}{text}")


def of_fault(fault: ExprFault, node: Node, right: Callable[[Node], Node | str | None]) -> PlanError:
    """The error of `node`, one of whose expressions has `fault`; `right` is asked about the line
    to write instead: it gives one that is not refused again, or None."""
    old, new = fault.old, fault.new
    if isinstance(old, Column):
        lost = _lost(node, old.name)
        if lost is not None:
            return mended(f"{fault.message}; an earlier step leaves it out, there", lost)
    if (
        not isinstance(old, Column | None)
        and (call := call_around(node.expressions, old)) is not None
    ):
        return _of_call(fault, call, node, right)
    shown = "" if old is None or isinstance(old, Column | Literal) else _in(expr_text(old))
    if old is None or new is None:
        return PlanError(fault.message + shown)
    return mended(fault.message + shown, right(substituted(node, old, new)))


def _of_call(
    fault: ExprFault, call: Written, node: Node, right: Callable[[Node], Node | str | None]
) -> PlanError:
    """The error in the words of the `call` that the user wrote."""
    old, new = fault.old, fault.new
    assert old is not None
    name, message = f".{call.name}", fault.message
    function = getattr(old, "function", "")
    for said in (function_text(function), function) if function else ():
        if message.startswith(f"{said} "):
            message = name + _ARGUMENT.sub("", message.removeprefix(said))
            break
    else:
        message = f"{name}: {message}"
    message += _in(call.text())
    if new is None or (swap := mended_input(call, old, new)) is None:
        return PlanError(message)
    line = substituted(node, *swap)
    return mended(message, call.text(*swap)) if right(line) is line else PlanError(message)


def substituted(node: Node, old: Expr, new: Expr) -> Node:
    """`node` with `new` for `old` in each of its expressions."""
    return map_exprs(node, lambda expr: substitute(expr, old, new))


def _in(text: str) -> str:
    return f" in {text if len(text) <= _EXPR_MAX else text[:_EXPR_MAX] + ' ...'}"


def substitute(expr: Expr, old: Expr, new: Expr) -> Expr:
    """`expr` with `new` for the object `old`; a column is replaced wherever it is read."""

    def swap(part: Expr) -> Expr:
        same_column = isinstance(old, Column) and isinstance(part, Column) and part == old
        return new if part is old or same_column else part

    return rewrite_expr(expr, swap)


def _lost(node: Node, name: str) -> Node | None:
    """The step below `node` that had the column and left it out, mended to keep it."""
    below = node.children
    while len(below) == 1:
        (step,) = below
        if (kept := step.keeping(name)) is not None:
            (source,) = map(known_schema, step.children)
            if source is not None and name in source.names:
                return kept
        below = step.children
    return None


def free_name(name: str, taken: Collection[str]) -> str:
    """`name`, or the first of ``name_2``, ``name_3`` … that is not taken.

    >>> free_name("a", ["a", "a_2"])
    'a_3'
    """
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free
