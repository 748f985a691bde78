"""The call that a user wrote, where it made an expression of several parts: ``fill_null(0)``.

One job: keep the call beside what it made, and find the one that a fault lies in. It is no part of
the plan: neither compared nor sent, and lost where an expression is rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fabric.plan.expr import Expr, children
from fabric.plan.faults import quoted
from fabric.plan.python import expr_text, subject_text
from fabric.plan.walk import walk_expr

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
