"""The shape of a registered function, and how a call finds its types.

One job: `Function`, `Signature`, and the checks all functions share (arity, literal arguments). The
families of functions are in the other modules of this folder, one a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from fabric.plan.expr import Literal
from fabric.plan.faults import ArgumentFault, arguments_text, nearest


@dataclass(frozen=True, slots=True)
class Signature:
    """The type each argument is cast to before the function computes, and what it returns."""

    args: tuple[pa.DataType, ...]
    result: pa.DataType


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a type rule sees: the argument types, and the constants among the arguments."""

    types: tuple[pa.DataType, ...]
    literals: tuple[Literal | None, ...]


Rule = Callable[[Arguments], Signature]
Total = bool | Callable[[Arguments], bool]


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function: its name, how many arguments it takes, its type rule, what it does.

    ``arity`` is (least, most); ``most`` None means any number. `constants` are the indices of
    arguments that must be literals.

    `total` says that no value of its arguments raises: always, or for the types that the arguments
    are cast to and these constants. It is the one place that says so (`fabric.plan.total` asks):
    the optimizer moves total expressions freely, engines evaluate them on any row. A new function
    that can't raise must say ``total=True``; left out, it can raise, which is right but slow.

    `volatile` says that a call may answer otherwise for the same arguments: then it is evaluated
    where it stands, and a stage that has it does not put out the same rows again.
    """

    name: str
    arity: tuple[int, int | None]
    rule: Rule
    doc: str
    constants: tuple[int, ...] = ()
    total: Total = False
    volatile: bool = False

    def is_total(self, types: Sequence[pa.DataType], literals: Sequence[Literal | None]) -> bool:
        """Whether a call whose arguments were cast to `types` already can't raise."""
        if isinstance(self.total, bool):
            return self.total
        return self.total(Arguments(tuple(types), tuple(literals)))

    def signature(
        self, types: Sequence[pa.DataType], literals: Sequence[Literal | None] | None = None
    ) -> Signature:
        """The types of one call; raises `ArgumentFault`."""
        least, most = self.arity
        if len(types) < least or (most is not None and len(types) > most):
            expected = (
                f"{least}" if most == least else f"{least} to {most}" if most else f"≥ {least}"
            )
            raise ArgumentFault(f"{self.name} takes {arguments_text(expected)}, got {len(types)}")
        given = tuple(literals) if literals is not None else (None,) * len(types)
        if literals is not None:
            for index in self.constants:
                if index < len(given) and given[index] is None:
                    raise ArgumentFault(f"{self.name} needs a constant as argument {index + 1}")
        return self.rule(Arguments(tuple(types), given))


def wrong_type(name: str, index: int, got: pa.DataType, wanted: str, cast: object) -> ArgumentFault:
    """The fault of a call whose argument `index` is not a `wanted`."""
    return ArgumentFault(f"{name} takes {wanted}, got {got} as argument {index + 1}", index, cast)


def check_unit(name: str, literal: Literal | None, index: int, units: Sequence[str]) -> None:
    """Refuse a constant that names none of `units`; None (no constants known) passes."""
    if literal is None or literal.value in units:
        return
    near = nearest(str(literal.value), units)
    raise ArgumentFault(
        f"{name} knows no unit {literal.value!r}; use one of {', '.join(units)}",
        index,
        None if near is None else Literal(near, pa.string()),
    )
