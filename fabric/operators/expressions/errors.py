"""Turn what Arrow and DataFusion raise into Fabric's errors.

One job: `as_fabric`. DataFusion hands an error of ours on as text inside its own, so the class is
found again by name; an error of Arrow is told by its text.
"""

from __future__ import annotations

import re
from ast import literal_eval

import pyarrow as pa

from fabric.errors import ERRORS, CancelledError, ExpressionError, FabricError, InternalError

_OURS = re.compile(
    rf"value: (?P<kind>{'|'.join(ERRORS)})\((?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\)"
)
"""How the `repr` of an error of ours looks inside the text of a DataFusion error."""

_VALUE_FAULTS = (
    (re.compile(r"divide by zero", re.I), "division by zero"),
    (re.compile(r"overflow|out of (bounds|range)|not in range|would (over|under)flow", re.I),
     "overflow"),
    (re.compile(r"rescaling|does not fit in precision|invalid precision", re.I),
     "decimal overflow"),
    (re.compile(r"truncated|Failed to parse|Can't cast value|Cannot cast (string|value)", re.I),
     "a value can't be cast"),
)  # fmt: skip


def as_fabric(error: BaseException) -> FabricError:
    """The Fabric error that `error` stands for; its own if it is one already.

    >>> as_fabric(pa.ArrowInvalid("divide by zero"))
    ExpressionError('division by zero')
    >>> as_fabric(ValueError("what"))
    InternalError('ValueError: what')
    """
    if isinstance(error, FabricError):
        return error
    if isinstance(error, KeyboardInterrupt | pa.ArrowCancelled):
        return CancelledError("cancelled")
    text = str(error)
    if (found := _OURS.search(text)) is not None:
        return ERRORS[found["kind"]](str(literal_eval(found["text"])))
    fault = value_fault(text)
    if fault:
        return ExpressionError(fault)
    return InternalError(f"{type(error).__name__}: {_first_line(text)}")


def value_fault(text: str) -> str:
    """What an error text of Arrow or DataFusion says about a value; empty when it says nothing."""
    line = _first_line(text)
    return next((what for pattern, what in _VALUE_FAULTS if pattern.search(line)), "")


def _first_line(text: str) -> str:
    """No traceback ever gets into a message."""
    return text.split("\n", 1)[0].split(", traceback:", 1)[0]
