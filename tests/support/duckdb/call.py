"""What a translation of a function is given, and how it asks for a constant.

One job: the types the families share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fabric.plan.expr import Literal
from fabric.plan.functions import Signature

__all__ = ["Args", "Builders", "Literals", "Signature", "constant"]

Args = Sequence[str]
Literals = Sequence[Literal | None]
Builders = dict[str, Callable[[Args, Signature, Literals], str]]


def constant(name: str, literals: Literals, index: int) -> Any:
    """The value of an argument that is a constant; raises `ValueError` when it is null."""
    literal = literals[index]
    if literal is None or literal.value is None:
        raise ValueError(f"no SQL for a {name} without its constant")
    return literal.value
