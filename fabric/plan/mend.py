"""From what is wrong with an expression to what the user should write instead.

`mended` and `of_fault` make the `PlanError` of a node, with the mended line as Python code to
paste. Where a call of the user's became an expression of several parts, such as ``fill_null(0)``,
`Written` keeps the call with the expression, so that the line holds the call. The call is no part
of the plan: neither compared nor sent, and lost where an expression is rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fabric.errors import PlanError
from fabric.plan.expr import Column, Expr, Literal, children
from fabric.plan.faults import ExprFault, quoted
from fabric.plan.node import Node, known_schema
from fabric.plan.python import expr_text, function_text, subject_text
from fabric.plan.walk import map_exprs, rewrite_expr, walk_expr

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


_PARTS_MAX = 2_000
T = TypeVar("T", bound=Expr)


@dataclass(frozen=True, slots=True)
class Written:
    """A method of an expression (`subject`) as it was called; expressions are `Expr` nodes."""

    name: str
    subject: Expr
    args: Sequence[Any] = ()
    named: Mapping[str, Any] | None = None

    @property
    def inputs(self) -> list[Expr]:
        """The expressions that the user gave to it."""
        return [*_expressions([self.subject, self.args, self.named])]

    def text(self, old: Expr | None = None, new: Expr | None = None) -> str:
        """The call as Python code, with `new` in the place of the input `old`."""

        def shown(value: Any) -> str:
            if isinstance(value, Expr):
                return expr_text(new if value is old and new is not None else value)
            if isinstance(value, list):
                return f"[{', '.join(map(shown, value))}]"
            if isinstance(value, Mapping):
                pairs = (f"{shown(key)}: {shown(one)}" for key, one in value.items())
                return f"{{{', '.join(pairs)}}}"
            return quoted(value) if isinstance(value, str) else repr(value)

        subject = subject_text(new if self.subject is old and new is not None else self.subject)
        named = [f"{name}={shown(value)}" for name, value in (self.named or {}).items()]
        return f"{subject}.{self.name}({', '.join([*map(shown, self.args), *named])})"


def keep_call(expr: Expr, call: Written) -> None:
    """Remember that `call` made `expr`."""
    object.__setattr__(expr, "_call", call)


def moved_call(old: T, new: T) -> T:
    """`new`, which stands for `old`, with the call that made `old`."""
    call: Written | None = getattr(old, "_call", None)
    if new is not old and call is not None:
        keep_call(new, call)
    return new


def call_around(exprs: Sequence[Expr], part: Expr) -> Written | None:
    """The outermost call that made `part` itself, rather than being given it."""
    for expr in exprs:
        parts = walk_expr(expr)
        if len(parts) > _PARTS_MAX:
            continue
        for whole in reversed(parts):
            call: Written | None = getattr(whole, "_call", None)
            if call is None or not _within(whole, part):
                continue
            if not any(_within(given, part) for given in call.inputs):
                return call
    return None


def mended_input(call: Written, old: Expr, new: Expr) -> tuple[Expr, Expr] | None:
    """The one input of `call` in which `old` and `new` differ, and what `new` has instead."""
    below = zip(children(old), children(new), strict=False)
    changed = [(one, other) for one, other in below if one is not other]
    if len(changed) != 1:
        return None
    given, made = changed[0]
    return (given, made) if any(given is one for one in call.inputs) else None


def _expressions(value: Any) -> Iterator[Expr]:
    """All in `value` that are expressions, in lists and mappings too."""
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, list | Mapping):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _expressions(one)


def _within(whole: Expr, part: Expr) -> bool:
    return any(one is part for one in walk_expr(whole))
