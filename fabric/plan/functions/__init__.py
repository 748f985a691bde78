"""The function registry: every scalar function a plan may call, with its type rule.

One job: look a call up and answer with its types. Evaluators cast the arguments to
``signature(...).args`` first and compute ``signature(...).result``; that way all of them agree.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.expr import Literal
from fabric.plan.faults import ArgumentFault, nearest
from fabric.plan.functions import (
    arithmetic,
    calendar,
    comparison,
    dates,
    encoding,
    epochs,
    lists,
    math,
    regex,
    strings,
    structs,
    zones,
)
from fabric.plan.functions.aggregates import AGGREGATES
from fabric.plan.functions.registry import Function, Signature
from fabric.plan.functions.windows import WINDOW_FUNCTIONS

__all__ = [
    "AGGREGATES", "FUNCTIONS", "WINDOW_FUNCTIONS", "Function", "Signature", "find", "result_type",
    "signature",
]  # fmt: skip

_FAMILIES = (
    arithmetic, math, comparison, strings, regex, encoding, dates, calendar,
    epochs, lists, structs, zones,
)  # fmt: skip
FUNCTIONS: dict[str, Function] = {
    function.name: function for family in _FAMILIES for function in family.FUNCTIONS
}
"""All scalar functions by name."""


def find(name: str) -> Function:
    """The function `name`; raises `ArgumentFault`."""
    if name not in FUNCTIONS:
        near = nearest(name, FUNCTIONS)
        hint = f", did you mean {near}?" if near else ""
        raise ArgumentFault(f"there is no function {name[:80]!r}{hint}")
    return FUNCTIONS[name]


def signature(
    name: str, types: Sequence[pa.DataType], literals: Sequence[Literal | None] | None = None
) -> Signature:
    """The types to cast the arguments to, and the type of the answer.

    Parameters
    ----------
    name
        A key of `FUNCTIONS`.
    types
        The argument types as they are.
    literals
        Beside each type its constant, or None; left out, constants are not looked at. They decide
        the precision of decimals, so evaluators give them.

    Raises
    ------
    PlanError
        If there is no such function or it does not take these types.

    Examples
    --------
    >>> signature("add", [pa.int32(), pa.int64()])
    Signature(args=(DataType(int64), DataType(int64)), result=DataType(int64))
    """
    try:
        return find(name).signature(types, literals)
    except ArgumentFault as fault:
        raise PlanError(fault.message) from None


def result_type(
    name: str, types: Sequence[pa.DataType], literals: Sequence[Literal | None] | None = None
) -> pa.DataType:
    """What function `name` returns for these argument types; see `signature`.

    >>> result_type("divide", [pa.int32(), pa.int32()])
    DataType(double)
    """
    return signature(name, types, literals).result
