"""A registered function: its types, its forms on each engine, its text.

One job: `Function`, `Signature`, and what families of functions share: the checks of arity and
literal arguments, `takes` (a type rule for fixed types), `product` (how far results grow). The
families are in the other modules of this folder, one a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.expr import Literal
from fabric.plan.faults import ArgumentFault, arguments_text, nearest
from fabric.plan.types import (
    is_binary,
    is_boolean,
    is_date,
    is_string,
    is_timestamp,
    numeric,
    plain,
)


@dataclass(frozen=True, slots=True)
class Signature:
    """The type each argument is cast to before the function computes, and what it returns."""

    args: tuple[pa.DataType, ...]
    result: pa.DataType


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a type rule sees of a call: the function, its arguments' types and constants."""

    name: str
    types: tuple[pa.DataType, ...]
    literals: tuple[Literal | None, ...]


Rule = Callable[[Arguments], Signature]
Total = bool | Callable[[Arguments], bool]
Room = Callable[[Sequence[float], Sequence[Literal | None]], float]
"""How many bytes a result may take, of those of the arguments and the constants among them."""


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function: what it takes and returns, how each engine and the user write it.

    An engine that has the function under a name, with the same meaning for all arguments, is named
    here. For the others the layer that has the engine registers a form of its own:
    `fabric.operators.expressions.arrow` (DataFusion calls that form where `datafusion/native.py`
    has no better one) and `fabric.clients.spark.expressions`.

    Parameters
    ----------
    arity
        The least and the most arguments; the most is None for any number.
    constants
        The indices of arguments that must be literals.
    total
        Whether no value of the arguments raises: always, or for the types that the arguments
        are cast to and these constants. It is the one place that says so (`fabric.plan.total`
        asks): the optimizer moves total expressions freely, engines evaluate them on any row. A new
        function that can't raise must say ``total=True``; left out, it can raise, which is right
        but slow.
    volatile
        Whether a call may answer otherwise for the same arguments: then it is evaluated where it
        stands, and a stage that has it does not put out the same rows again.
    text
        How users write it: an operator, a method of an expression (``.str.upper``), or a function;
        left out, a function of this name.
    subject
        The index of the argument that a method is called on.
    flag
        What users write behind the arguments to mean this function.
    arrow
        The name in `pyarrow.compute`.
    spark
        The name in Spark's SQL.
    room
        How large a result may be; left out, not much larger than the arguments. Calls of constants
        with large results are not computed while planning.
    """

    name: str
    arity: tuple[int, int | None]
    rule: Rule
    doc: str
    constants: tuple[int, ...] = ()
    total: Total = False
    volatile: bool = False
    text: str = ""
    subject: int = 0
    flag: str = ""
    arrow: str = ""
    spark: str = ""
    room: Room | None = None

    def is_total(self, types: Sequence[pa.DataType], literals: Sequence[Literal | None]) -> bool:
        """Whether a call whose arguments were cast to `types` already can't raise."""
        if isinstance(self.total, bool):
            return self.total
        return self.total(Arguments(self.name, tuple(types), tuple(literals)))

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
        return self.rule(Arguments(self.name, tuple(types), given))


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


S, B, D, T = pa.string(), pa.binary(), pa.float64(), pa.bool_()
I, L = pa.int32(), pa.int64()  # noqa: E741
_FITS: dict[pa.DataType, tuple[Callable[[pa.DataType], bool], str]] = {
    S: (is_string, "a string"),
    B: (lambda dtype: is_binary(dtype) or is_string(dtype), "a string or bytes"),
    I: (lambda dtype: t.is_integer(plain(dtype)), "a whole number"),
    L: (lambda dtype: t.is_integer(plain(dtype)), "a whole number"),
    D: (lambda dtype: numeric(dtype) is not None, "a number"),
    T: (is_boolean, "true or false"),
    pa.date32(): (lambda dtype: is_date(dtype) or is_timestamp(dtype), "a date or timestamp"),
}
"""What may stand where a type is wanted; it is cast to that type."""


def takes(wanted: tuple[pa.DataType, ...], result: pa.DataType) -> Rule:
    """A rule for arguments of these types; fewer may be given where the arity allows it."""

    def rule(args: Arguments) -> Signature:
        for index, (dtype, want) in enumerate(zip(args.types, wanted, strict=False)):
            fits, kind = _FITS[want]
            if not (fits(dtype) or t.is_null(plain(dtype))):
                raise wrong_type(args.name, index, dtype, kind, want)
        return Signature(wanted[: len(args.types)], result)

    return rule


def product(sizes: Sequence[float], _: Sequence[Literal | None]) -> float:
    """The room of a result, or of work, that grows with the product of what a call is given."""
    return (sizes[0] + 1) * (sum(sizes[1:]) + 1)
