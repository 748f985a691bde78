"""Functions of lists: array … list_join.

One job: their types. Any list layout goes in, ``pa.list_`` of nullable values comes out; lengths
are int32, positions int64, as in Spark. Values of two lists are cast to one type first.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.expr import Literal
from fabric.plan.faults import ArgumentFault
from fabric.plan.functions.comparison import no_common, one_type
from fabric.plan.functions.registry import Arguments, Function, Rule, Signature, product, wrong_type
from fabric.plan.functions.structs import named
from fabric.plan.types import (
    MAX_PRECISION,
    bounded,
    common_of,
    common_type,
    flat_type,
    is_boolean,
    is_groupable,
    is_list,
    is_string,
    numeric,
    plain,
)

I, L, B, S = pa.int32(), pa.int64(), pa.bool_(), pa.string()  # noqa: E741
_SUM_DIGITS = 10


def _is_null(dtype: pa.DataType) -> bool:
    return bool(t.is_null(plain(dtype)))


def _item(args: Arguments, index: int = 0) -> pa.DataType:
    """What is in the list at `index`."""
    dtype = args.types[index]
    if _is_null(dtype):
        return pa.null()
    if not is_list(dtype):
        raise wrong_type(args.name, index, dtype, "a list", None)
    return flat_type(plain(dtype).value_type)


def _whole(args: Arguments, index: int) -> None:
    dtype = args.types[index]
    if not (t.is_integer(plain(dtype)) or _is_null(dtype)):
        raise wrong_type(args.name, index, dtype, "a whole number", I)


def _compared(name: str, item: pa.DataType) -> pa.DataType:
    """The type, when its values are equal or not."""
    if not is_groupable(item):
        raise ArgumentFault(f"{name} can't compare values of type {item}")
    return item


def _common(name: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    common = common_type(left, right)
    if common is None:
        raise no_common(f"{name} can't make one type of", left, right)
    return flat_type(common)


def _array(args: Arguments) -> Signature:
    item = flat_type(one_type(args))
    return Signature((item,) * len(args.types), pa.list_(item))


def _concat_list(args: Arguments) -> Signature:
    """Lists of a type that all values have, and single values of that type."""
    nested = [is_list(dtype) for dtype in args.types]
    item = pa.null()
    for index, dtype in enumerate(args.types):
        one = _item(args, index) if nested[index] else dtype
        item = _common("concat_list", item, one)
    whole = pa.list_(item)
    return Signature(tuple(whole if one else item for one in nested), whole)


def _same(*, compared: bool = False) -> Rule:
    """A list from one list: both of one type."""

    def rule(args: Arguments) -> Signature:
        item = _item(args)
        whole = pa.list_(_compared(args.name, item) if compared else item)
        return Signature((whole,), whole)

    return rule


def _one(*, compared: bool = False) -> Rule:
    """A value of the list."""

    def rule(args: Arguments) -> Signature:
        item = _item(args)
        return Signature((pa.list_(_compared(args.name, item) if compared else item),), item)

    return rule


def _len(args: Arguments) -> Signature:
    return Signature((pa.list_(_item(args)),), I)


def _get(args: Arguments) -> Signature:
    item = _item(args)
    _whole(args, 1)
    return Signature((pa.list_(item), I), item)


def _with_value(result: pa.DataType | None) -> Rule:
    """A list and a value like those in it; `result` None is a list of them."""

    def rule(args: Arguments) -> Signature:
        item = _common(args.name, _item(args), args.types[1])
        whole = pa.list_(item if result is None else _compared(args.name, item))
        return Signature((whole, item), whole if result is None else result)

    return rule


def _slice(args: Arguments) -> Signature:
    whole = pa.list_(_item(args))
    _whole(args, 1)
    _whole(args, 2)
    return Signature((whole, I, I), whole)


def _lists(*, compared: bool = False) -> Rule:
    """A list from several of one type."""

    def rule(args: Arguments) -> Signature:
        item = _item(args)
        for index in range(1, len(args.types)):
            item = _common(args.name, item, _item(args, index))
        whole = pa.list_(_compared(args.name, item) if compared else item)
        return Signature((whole,) * len(args.types), whole)

    return rule


def _flatten(args: Arguments) -> Signature:
    inner = _item(args)
    if not (t.is_list(inner) or t.is_null(inner)):
        raise wrong_type("list_flatten", 0, args.types[0], "a list of lists", None)
    inner = pa.list_(pa.null()) if t.is_null(inner) else inner
    return Signature((pa.list_(inner),), inner)


def _sort(args: Arguments) -> Signature:
    whole = pa.list_(_compared("list_sort", _item(args)))
    for index, dtype in enumerate(args.types[1:], 1):
        if not is_boolean(dtype):
            raise wrong_type("list_sort", index, dtype, "true or false", None)
    return Signature((whole, B, B), whole)


def _number(args: Arguments) -> pa.DataType:
    item = _item(args)
    number = pa.float64() if t.is_null(item) else numeric(item)
    if number is None:
        raise wrong_type(args.name, 0, args.types[0], "a list of numbers", pa.list_(pa.float64()))
    return number


def _sum(args: Arguments) -> Signature:
    number = _number(args)
    if t.is_decimal(number):
        number = bounded(min(number.precision + _SUM_DIGITS, MAX_PRECISION), number.scale)
    else:
        number = L if t.is_integer(number) else pa.float64()
    return Signature((pa.list_(number),), number)


def _mean(args: Arguments) -> Signature:
    _number(args)
    return Signature((pa.list_(pa.float64()),), pa.float64())


def _flags(args: Arguments) -> Signature:
    item = _item(args)
    if not (t.is_boolean(item) or t.is_null(item)):
        raise wrong_type(args.name, 0, args.types[0], "a list of booleans", pa.list_(B))
    return Signature((pa.list_(B),), B)


def _join(args: Arguments) -> Signature:
    item = _item(args)
    if not (is_string(item) or t.is_null(item)):
        raise wrong_type("list_join", 0, args.types[0], "a list of strings", pa.list_(S))
    for index, dtype in enumerate(args.types[1:], 1):
        if not (is_string(dtype) or _is_null(dtype)):
            raise wrong_type("list_join", index, dtype, "a string", S)
    return Signature((pa.list_(S),) + (S,) * (len(args.types) - 1), S)


def _repeat(args: Arguments) -> Signature:
    item = flat_type(args.types[0])
    _whole(args, 1)
    return Signature((item, I), pa.list_(item))


def _sequence(args: Arguments) -> Signature:
    for index in range(len(args.types)):
        _whole(args, index)
    known = [numeric(dtype) for dtype in args.types if not _is_null(dtype)]
    common = common_of(dtype for dtype in known if dtype is not None)
    number = L if common is None or not t.is_integer(common) else common
    return Signature((number,) * len(args.types), pa.list_(number))


def _zip(args: Arguments) -> Signature:
    names = named("list_zip", args)
    items = [_item(args, index) for index in range(1, len(args.types), 2)]
    lists = (dtype for item in items for dtype in (S, pa.list_(item)))
    fields = pa.struct([*zip(names, items, strict=True)])
    return Signature(tuple(lists), pa.list_(fields))


def _of_floats(args: Arguments) -> bool:
    return bool(t.is_floating(args.types[0].value_type))


def _endless(_: Sequence[float], __: Sequence[Literal | None]) -> float:
    return inf


FUNCTIONS = (
    Function("array", (0, None), _array, "a list of all arguments", total=True, spark="array"),
    Function("list_len", (1, 1), _len, "the number of values, nulls counted", total=True,
             text=".list.len", arrow="list_value_length", spark="array_size"),
    Function("list_get", (2, 2), _get,
             "the value at position b (the first is 0, below 0 from the end), or null", total=True,
             text=".list.get", flag="null_on_oob=True"),
    Function("list_item", (2, 2), _get,
             "the value at position b, as list_get; an error where there is none",
             text=".list.get"),
    Function("list_contains", (2, 2), _with_value(B),
             "whether b is in the list; null when it is not and a null is", total=True,
             text="array_contains", spark="array_contains"),
    Function("list_position", (2, 2), _with_value(L),
             "where b is first in the list, counted from 1, or 0", total=True,
             text=".list.position", spark="array_position"),
    Function("list_slice", (3, 3), _slice,
             "at most c values from position b (the first is 1, below 0 from the end)",
             text=".list.sublist", spark="slice"),
    Function("list_concat", (1, None), _lists(),
             "the values of all lists; null when one is null", total=True,
             text=".list.concat", spark="concat"),
    Function("concat_list", (1, None), _concat_list,
             "all lists and single values joined to one list; null when one of the lists is",
             total=True),
    Function("list_append", (2, 2), _with_value(None), "the list with b at its end",
             total=True, text=".list.append", spark="array_append"),
    Function("list_prepend", (2, 2), _with_value(None),
             "the list with b at its beginning", total=True,
             text=".list.prepend", spark="array_prepend"),
    Function("list_flatten", (1, 1), _flatten,
             "the values of all lists in the list; null when one is null", total=True,
             text=".list.flatten", spark="flatten"),
    Function("list_drop_nulls", (1, 1), _same(), "the list without its nulls",
             total=True, text=".list.drop_nulls", spark="array_compact"),
    Function("list_reverse", (1, 1), _same(), "the list from its end", total=True,
             text=".list.reverse", spark="reverse"),
    Function("list_unique", (1, 1), _same(compared=True),
             "every value once, where it was first", total=True,
             text=".list.unique", spark="array_distinct"),
    Function("list_union", (2, 2), _lists(compared=True),
             "every value of both lists once", total=True,
             text=".list.set_union", spark="array_union"),
    Function("list_intersect", (2, 2), _lists(compared=True),
             "every value of a that is in b, once", total=True,
             text=".list.set_intersection", spark="array_intersect"),
    Function("list_except", (2, 2), _lists(compared=True),
             "every value of a that is not in b, once", total=True,
             text=".list.set_difference", spark="array_except"),
    Function("list_sort", (3, 3), _sort,
             "the list in order, descending if b, its nulls at the end if c (constants)", (1, 2),
             total=True, text=".list.sort"),
    Function("list_min", (1, 1), _one(compared=True),
             "the smallest value; null when there is none", total=True,
             text=".list.min", spark="array_min"),
    Function("list_max", (1, 1), _one(compared=True),
             "the largest value; NaN is the largest", total=True,
             text=".list.max", spark="array_max"),
    Function("list_sum", (1, 1), _sum, "the sum of the values, 0 for none; overflow is an error",
             total=_of_floats, text=".list.sum"),
    Function("list_mean", (1, 1), _mean, "the mean of the values; null when there is none",
             total=True, text=".list.mean"),
    Function("list_any", (1, 1), _flags, "whether one is true; nulls are left out",
             total=True, text=".list.any"),
    Function("list_all", (1, 1), _flags, "whether none is false; nulls are left out",
             total=True, text=".list.all"),
    Function("list_join", (2, 3), _join,
             "the strings with b between them; nulls are left out, or written as c", total=True,
             text=".list.join", spark="array_join", room=product),
    Function("list_repeat", (2, 2), _repeat, "a list of b times a", spark="array_repeat",
             room=_endless),
    Function("sequence", (2, 3), _sequence, "the whole numbers from a to b, by steps of c",
             spark="sequence", room=_endless),
    Function("list_zip", (2, None), _zip,
             "lists as one list of structs; names (constants) and lists in turn", total=True),
)  # fmt: skip
