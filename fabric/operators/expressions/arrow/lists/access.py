"""What is in a list: list_len list_get list_item list_contains list_position list_slice.

One job: those six. The first value has position 0 in `list_get` and `list_item`, 1 in the others,
as in SQL.
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
    simple,
    to_numpy,
)
from fabric.operators.expressions.arrow.lists.codes import codes
from fabric.operators.expressions.arrow.lists.view import Flags, Lists, Numbers, count, flags


def _get(request: Request) -> Bound:
    """The value at a position from 0, below 0 from the end; null or an error when there is none."""
    is_strict = request.name == "list_item"

    def kernel(values: Datum, position: Datum) -> pa.Array:
        array, place = arrays(values, position)
        lists = Lists.of(array)
        index = to_numpy(pc.fill_null(place, 0)).astype(np.int64)
        index = np.where(index < 0, index + lists.sizes, index)
        absent = (index < 0) | (index >= lists.sizes)
        unknown = flags(pc.is_null(place))
        if is_strict:
            asked = ~unknown if lists.null is None else ~(unknown | lists.null)
            _refuse_outside(absent & asked, place, lists)
        absent |= unknown
        source = np.where(absent, 0, lists.starts + index)
        return lists.values.take(pa.array(source, mask=absent))

    return Bound(kernel)


def _found(values: Datum, wanted: Datum) -> tuple[Lists, Flags, Flags]:
    """The lists, which of their values is the wanted one, and on which rows nothing is asked."""
    array, needle = arrays(values, wanted)
    lists = Lists.of(array)
    code = codes(pa.concat_arrays([lists.values, needle]))
    n_values = len(lists.values)
    same = (code[:n_values] == code[n_values:][lists.rows]) & ~lists.missing
    unknown = flags(pc.is_null(needle))
    if lists.null is not None:
        unknown |= lists.null
    return lists, same & ~unknown[lists.rows], unknown


def _contains(values: Datum, wanted: Datum) -> pa.Array:
    """Null, not false, when the value is not found and a null is."""
    lists, same, unknown = _found(values, wanted)
    n_rows = len(lists.sizes)
    found = count(lists.rows[same], n_rows) > 0
    unsure = ~found & (count(lists.rows[lists.missing], n_rows) > 0)
    return pa.array(found, mask=unknown | unsure)


def _position(values: Datum, wanted: Datum) -> pa.Array:
    """From 1; 0 when the value is not found."""
    lists, same, unknown = _found(values, wanted)
    position = np.zeros(len(lists.sizes), np.int64)
    position[lists.rows[same][::-1]] = lists.places[same][::-1] + 1
    return pa.array(position, mask=unknown)


def _slice(values: Datum, start: Datum, length: Datum) -> pa.Array:
    """At most `length` values from `start`, counted from 1, below 0 from the end."""
    array, first, most = arrays(values, start, length)
    lists = Lists.of(array)
    unknown = flags(pc.or_(pc.is_null(first), pc.is_null(most)))
    if lists.null is not None:
        unknown |= lists.null
    begin, size = (to_numpy(pc.fill_null(each, 1)).astype(np.int64) for each in (first, most))
    _refuse(begin == 0, unknown, "the start of a slice is counted from 1, it can't be 0")
    _refuse(size < 0, unknown, "the length of a slice can't be below 0")
    return lists.keep(_inside(lists, begin, size)).nulled(unknown).array()


def _inside(lists: Lists, begin: Numbers, size: Numbers) -> Flags:
    """Which values lie in the slice; a slice that begins before the list is empty."""
    offset = np.where(begin > 0, begin - 1, lists.sizes + begin)
    size = np.where(offset < 0, 0, size)
    place = lists.places - offset[lists.rows]
    inside: Flags = (place >= 0) & (place < size[lists.rows])
    return inside


def _refuse_outside(wrong: Flags, place: pa.Array, lists: Lists) -> None:
    if wrong.any():
        row = int(wrong.argmax())
        raise ExpressionError(
            f"index {place[row]} lies outside a list of {lists.sizes[row]} values; write "
            f".list.get({place[row]}, null_on_oob=True) for null there"
        )


def _refuse(wrong: Flags, unknown: Flags, message: str) -> None:
    if (wrong & ~unknown).any():
        raise ExpressionError(message)


IMPLEMENTATIONS: dict[str, Implementation] = {
    "list_get": _get,
    "list_item": _get,
    "list_contains": simple(_contains),
    "list_position": simple(_position),
    "list_slice": simple(_slice),
}
