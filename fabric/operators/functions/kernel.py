"""A user's function as a kernel over Arrow arrays.

One job: `kernel`. Whatever the kind, a null argument makes a null answer without a call, but for
functions of whole arrays, which see nulls. The answer must be as long as the input and of the
declared type; anything else is an error that names the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric.errors import ExpressionError, InternalError
from fabric.operators.functions.compilation import NotCompiledError, compiled
from fabric.operators.functions.user_code import said, watched
from fabric.plan.expr import Udf, UdfKind
from fabric.plan.faults import with_article
from fabric.plan.literals import array_of

Kernel = Callable[..., pa.Array]
_SHOWN = 80


def kernel(udf: Udf, function: Callable[..., Any], types: Sequence[pa.DataType]) -> Kernel:
    """`function` over arrays of `types`, all of one length."""
    run = _RUNS[udf.kind](udf, function, tuple(types))

    def call(*columns: pa.Array) -> pa.Array:
        with watched(udf.payload):
            found = run(*columns)
        return _checked(udf, found, len(columns[0]))

    return call


def _checked(udf: Udf, found: object, n_rows: int) -> pa.Array:
    """The answer as an array of the declared type."""
    array = _as_array(udf, found)
    if len(array) != n_rows:
        raise ExpressionError(
            f"the function {udf.name} returned {len(array)} values for {n_rows} rows"
        )
    if array.type.equals(udf.dtype):
        return array
    try:
        return array.cast(udf.dtype)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ExpressionError(
            f"the function {udf.name} returned {array.type}, declared is {udf.dtype}: "
            f"{str(error)[:_SHOWN]}"
        ) from error


def _as_array(udf: Udf, found: object) -> pa.Array:
    if isinstance(found, pa.ChunkedArray):
        return found.combine_chunks()
    if isinstance(found, pa.Array):
        return found
    if isinstance(found, np.ndarray) and found.ndim == 1:
        return pa.array(found)
    raise ExpressionError(
        f"the function {udf.name} returned {with_article(type(found).__name__)}, not an array; a "
        "function of single values is declared with udf, one of arrays with arrow_udf"
    )


def _raised(udf: Udf, error: BaseException, values: Sequence[object] = ()) -> ExpressionError:
    """The user's error: its class, its text, and the values of the row where there is one."""
    row = f" for {', '.join(map(repr, values))}"[:_SHOWN] if values else ""
    return ExpressionError(f"the function {udf.name} raised {said(error)}{row}")


def _of_arrays(
    udf: Udf, function: Callable[..., Any], _: tuple[pa.DataType, ...]
) -> Callable[..., Any]:
    def run(*columns: pa.Array) -> object:
        try:
            return function(*columns)
        except BaseException as error:  # it is the user's, also a SystemExit
            raise _raised(udf, error) from error

    return run


def _by_row(
    udf: Udf, function: Callable[..., Any], _: tuple[pa.DataType, ...]
) -> Callable[..., Any]:
    def one(row: tuple[Any, ...]) -> object:
        if any(value is None for value in row):
            return None
        try:
            return function(*row)
        except BaseException as error:
            raise _raised(udf, error, row) from error

    def run(*columns: pa.Array) -> pa.Array:
        lists = [column.to_pylist() for column in columns]
        values = [one(row) for row in zip(*lists, strict=True)]
        try:
            return array_of(values, udf.dtype)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise ExpressionError(
                f"the function {udf.name} returned a value that is not a valid {udf.dtype}: "
                f"{str(error)[:_SHOWN]}"
            ) from error

    return run


def _by_numba(
    udf: Udf, function: Callable[..., Any], types: tuple[pa.DataType, ...]
) -> Callable[..., Any]:
    try:
        loop = compiled(function, types, udf.dtype, may_wrap=True)
    except NotCompiledError as error:
        raise InternalError(
            f"the function {udf.name} was compiled before, not here: {error}"
        ) from None

    def run(*columns: pa.Array) -> pa.Array:
        nulls = [column.is_null() for column in columns if column.null_count]
        some = _any(nulls) if nulls else None
        kept = [column if some is None else column.filter(pc.invert(some)) for column in columns]
        try:
            values = pa.array(loop(*(c.to_numpy(zero_copy_only=False) for c in kept)))
        except Exception as error:
            raise _raised(udf, error) from error
        if some is None:
            return values
        return pc.replace_with_mask(pa.nulls(len(some), values.type), pc.invert(some), values)

    return run


def _any(masks: Sequence[pa.Array]) -> pa.Array:
    found = masks[0]
    for mask in masks[1:]:
        found = pc.or_(found, mask)
    return found


_RUNS: dict[UdfKind, Callable[..., Callable[..., Any]]] = {
    "arrow": _of_arrays,
    "row": _by_row,
    "numba": _by_numba,
}
