"""Lists and structs made of other values: array list_repeat sequence list_zip struct.

One job: those, and struct_field, which takes a value out again. None of them is null because a
value in it is; `array` and `struct` never are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Request,
    arrays,
    from_numpy,
    simple,
    to_numpy,
)
from fabric.operators.expressions.arrow.lists.view import (
    Lists,
    Numbers,
    check_total,
    either,
    flags,
    struct_array,
)


def _array(request: Request) -> Bound:
    """One list of all arguments; every argument is evaluated, null or not."""

    def kernel(*values: Datum) -> pa.Array:
        if not values:
            return pa.array([[]], request.result)
        columns = arrays(*values)
        n_rows, n_columns = len(columns[0]), len(columns)
        check_total(n_rows * n_columns)
        order = np.arange(n_rows * n_columns).reshape(n_columns, n_rows).T.ravel()
        mixed = pa.concat_arrays(columns).take(pa.array(order))
        return Lists(mixed, np.full(n_rows, n_columns, np.int64)).array()

    return Bound(kernel, order="all")


def _repeat(value: Datum, number: Datum) -> pa.Array:
    """A value so many times; below 0 is 0 times. Null only where the number is."""
    value, number = arrays(value, number)
    sizes = np.maximum(to_numpy(pc.fill_null(number, 0)).astype(np.int64), 0)
    check_total(int(sizes.sum()))
    rows = np.repeat(np.arange(len(sizes)), sizes)
    null = flags(pc.is_null(number)) if number.null_count else None
    return Lists(value.take(pa.array(rows)), sizes, null).array()


def _sequence(request: Request) -> Bound:
    """Whole numbers from `start` to `stop`, both included, up or down as `stop` lies."""

    def kernel(*values: Datum) -> pa.Array:
        bounds = arrays(*values)
        valid = pc.is_valid(bounds[0])
        for other in bounds[1:]:
            valid = pc.and_(valid, pc.is_valid(other))
        known = flags(valid)
        start, stop, *given = (
            np.where(known, to_numpy(pc.fill_null(each, 0)), 0).astype(np.int64) for each in bounds
        )
        step = given[0] if given else np.where(stop >= start, 1, -1)
        sizes = np.where(known, _lengths(start, stop, np.where(known, step, 1)), 0)
        rows = np.repeat(np.arange(len(sizes)), sizes)
        lists = Lists(pa.nulls(len(rows)), sizes, None if known.all() else ~known)
        with np.errstate(over="ignore"):
            numbers = start[rows] + lists.places * step[rows]
        return lists.with_values(from_numpy(numbers, pa.int64()).cast(request.result.value_type)
                                 ).array()  # fmt: skip

    return Bound(kernel)


def _lengths(start: Numbers, stop: Numbers, step: Numbers) -> Numbers:
    """How many numbers there are; a step in the wrong direction is an error."""
    wrong = ((stop > start) & (step <= 0)) | ((stop < start) & (step >= 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ExpressionError(
            f"illegal sequence boundaries: {start[row]} to {stop[row]} by {step[row]}"
        )
    with np.errstate(over="ignore"):
        far = np.where(stop >= start, stop - start, start - stop).view(np.uint64)
        stride = np.where(step == 0, 1, np.abs(step)).view(np.uint64)
    steps = far // stride
    check_total(int(steps.astype(np.float64).sum()))
    numbers: Numbers = steps.astype(np.int64) + 1
    check_total(int(numbers.sum()))
    return numbers


def _zip(request: Request) -> Bound:
    """Lists side by side as structs; shorter ones go on with null. Names and lists in turn."""
    dtype = request.result.value_type

    def kernel(*values: Datum) -> pa.Array:
        lists = [Lists.of(column) for column in arrays(*values[1::2])]
        null = None
        for each in lists:
            null = either(null, each.null)
        sizes = np.maximum.reduce([each.sizes for each in lists])
        if null is not None:
            sizes = np.where(null, 0, sizes)
        check_total(int(sizes.sum()))
        whole = Lists(pa.nulls(int(sizes.sum())), sizes, null)
        fields = [_stretched(each, whole) for each in lists]
        return whole.with_values(struct_array(fields, dtype)).array()

    return Bound(kernel)


def _stretched(lists: Lists, whole: Lists) -> pa.Array:
    """The values of `lists` at the positions of `whole`, null beyond their ends."""
    beyond = whole.places >= lists.sizes[whole.rows]
    source = np.where(beyond, 0, lists.starts[whole.rows] + whole.places)
    return lists.values.take(pa.array(source, mask=beyond))


def _struct(request: Request) -> Bound:
    """Names and values in turn."""

    def kernel(*values: Datum) -> pa.Array:
        return struct_array(arrays(*values)[1::2], request.result)

    return Bound(kernel, order="all")


def _field(request: Request) -> Bound:
    index = request.operands[0].get_field_index(request.constant(1))

    def kernel(value: pa.Array, _: Datum) -> pa.Array:
        return pc.struct_field(value, [index])

    return Bound(kernel, array=0)


IMPLEMENTATIONS: dict[str, Implementation] = {
    "array": _array,
    "list_repeat": simple(_repeat, order="all"),
    "sequence": _sequence,
    "list_zip": _zip,
    "struct": _struct,
    "struct_field": _field,
}
