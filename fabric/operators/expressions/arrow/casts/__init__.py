"""ANSI casts: `cast_kernel` for every pair of types that `fabric.plan.types.can_cast` allows.

One job: pick the module of a pair of types. Types here are flat (`frame.flat_type`).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.errors import PlanError
from fabric.operators.expressions.arrow.bound import Kernel
from fabric.operators.expressions.arrow.casts import numbers
from fabric.plan.types import can_cast, is_binary, is_boolean, is_string


def cast_kernel(
    source: pa.DataType, target: pa.DataType, *, try_: bool = False
) -> tuple[Kernel, bool]:
    """The kernel of a cast and whether it is total; with `try_` a failing value is null."""
    if source.equals(target) or t.is_null(source):
        return (lambda value: value.cast(target)), True
    if not can_cast(source, target):
        raise PlanError(f"there is no cast from {source} to {target}")
    if _is_number(source) and _is_number(target):
        return numbers.cast_kernel(source, target, try_=try_)
    if is_string(source) and is_string(target):
        return (lambda value: value.cast(target)), True
    raise PlanError(f"there is no cast from {source} to {target} yet")


def _is_number(dtype: pa.DataType) -> bool:
    return bool(t.is_integer(dtype) or t.is_floating(dtype) or t.is_boolean(dtype))
