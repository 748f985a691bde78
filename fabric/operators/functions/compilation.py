"""Scalar Python functions compiled by Numba, and why one can't be.

One job: `compiled`. Only functions of numbers and booleans are; one that computes with integers is
not, because compiled integers wrap where Python's grow, and rows would differ unseen. Exceptions
are Python's. Math functions answer NaN outside their domain, where Python raises.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as t

_WRAPPING = (
    operator.add, operator.sub, operator.mul, operator.pow, operator.lshift, operator.floordiv,
    operator.iadd, operator.isub, operator.imul, operator.ipow, operator.ilshift,
    operator.ifloordiv, operator.neg,
)  # fmt: skip


class NotCompiledError(Exception):
    """Why a function can't be compiled, for the warning."""


@lru_cache(maxsize=256)
def compiled(
    function: Callable[..., Any],
    types: tuple[pa.DataType, ...],
    result: pa.DataType,
    *,
    may_wrap: bool = False,
) -> Callable[..., np.ndarray[Any, Any]]:
    """`function` over numpy arrays of `types` without nulls, giving an array.

    Parameters
    ----------
    may_wrap
        Compile integer arithmetic too; it wraps.

    Raises
    ------
    NotCompiledError
        With the reason, for people.
    """
    try:
        import numba
    except ImportError:
        raise NotCompiledError("Numba is not installed: pip install flight-fabric[numba]") from None
    if not types:
        raise NotCompiledError("it takes no columns")
    numbers = tuple(_numba_type(numba, dtype) for dtype in types)
    _numba_type(numba, result)
    scalar = numba.njit(nogil=True, error_model="python")(function)
    try:
        scalar.compile(numbers)
    except numba.core.errors.NumbaError as error:
        raise NotCompiledError(_reason(error)) from None
    except Exception as error:  # Numba gives up in many ways on code it does not know
        raise NotCompiledError(f"{type(error).__name__}: {_reason(error)}") from None
    overload: Any = scalar.overloads[numbers]
    if not may_wrap and _wraps(numba, overload):
        raise NotCompiledError("integer arithmetic would wrap unseen; cast to float64 first")
    out = _dtype_of(numba, overload.signature.return_type)
    return _looped(numba, scalar, len(types), out)


def _numba_type(numba: Any, dtype: pa.DataType) -> Any:
    number = t.is_integer(dtype) or t.is_floating(dtype) or t.is_boolean(dtype)
    if not number or t.is_float16(dtype):
        raise NotCompiledError(f"{dtype} is neither a number nor a boolean")
    return numba.from_dtype(np.dtype(dtype.to_pandas_dtype()))


def _dtype_of(numba: Any, found: Any) -> np.dtype[Any]:
    try:
        made: np.dtype[Any] = np.dtype(numba.np.numpy_support.as_dtype(found))
    except Exception:
        raise NotCompiledError(f"it returns {found}, not one number") from None
    return made


def _wraps(numba: Any, overload: Any) -> bool:
    """Whether some operator makes an integer, by the types Numba inferred."""
    for expr, signature in overload.type_annotation.calltypes.items():
        kws = getattr(expr, "_kws", {})
        made = getattr(signature, "return_type", None)
        if kws.get("fn") in _WRAPPING and isinstance(made, numba.types.Integer):
            return True
    return False


def _looped(
    numba: Any, scalar: Any, n_args: int, out: np.dtype[Any]
) -> Callable[..., np.ndarray[Any, Any]]:
    """The loop over all rows; its source is made for the number of arguments."""
    names = [f"a{i}" for i in range(n_args)]
    source = (
        f"def loop(out, {', '.join(names)}):\n"
        f"    for i in range(len(out)):\n"
        f"        out[i] = scalar({', '.join(f'{name}[i]' for name in names)})\n"
    )
    scope: dict[str, Any] = {"scalar": scalar}
    exec(source, scope)
    loop = numba.njit(nogil=True, error_model="python")(scope["loop"])

    def run(*columns: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        values = np.empty(len(columns[0]), out)
        loop(values, *columns)
        return values

    return run


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    useful = [line for line in lines if not line.startswith(("Failed in", "During", "File", ">>>"))]
    return (useful or lines or [type(error).__name__])[0][:200]
