"""Columns by name and type: ``fabric.selectors``, as in Polars.

One job: the selectors. They are joined by ``|``, ``&``, ``-`` and ``~``, and stand wherever a verb
takes columns.

>>> from fabric import DataFrame, selectors as cs
>>> df = DataFrame({"a": [1], "b": [0.5], "name": ["x"]})
>>> df.select(cs.numeric() - cs.by_name("a"), cs.string()).columns
['b', 'name']
>>> df.select(~cs.numeric()).columns
['name']
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types as t

from fabric.clients.dataframe.calls import helpful_functions
from fabric.clients.dataframe.expressions.literal import DTypeLike, to_dtype
from fabric.clients.dataframe.expressions.selection import Selector, by_names
from fabric.clients.dataframe.expressions.types import ManyNames
from fabric.clients.dataframe.names import no_function
from fabric.errors import PlanError
from fabric.plan import types as kinds

__all__ = [
    "all",
    "binary",
    "boolean",
    "by_dtype",
    "by_name",
    "contains",
    "date",
    "datetime",
    "decimal",
    "ends_with",
    "exclude",
    "float",
    "integer",
    "list",
    "matches",
    "numeric",
    "starts_with",
    "string",
    "struct",
    "temporal",
]


def _typed(text: str, fits: Callable[[pa.DataType], bool]) -> Selector:
    return Selector(
        lambda schema: [field.name for field in schema if fits(field.type)], f"cs.{text}()"
    )


def _named(text: str, fits: Callable[[str], bool]) -> Selector:
    return Selector(lambda schema: [name for name in schema.names if fits(name)], text)


def all() -> Selector:
    """Every column.

    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"a": [1], "s": ["x"]}).select(cs.all()).columns
    ['a', 's']
    """
    return Selector(lambda schema: [*schema.names], "all()")


def by_name(*names: str) -> Selector:
    """The columns of these names, in this order; `PlanError` where there is none of a name.

    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"a": [1], "b": [2], "c": [3]}).select(cs.by_name("c", "a")).columns
    ['c', 'a']
    """
    return by_names([one for name in names for one in ([name] if isinstance(name, str) else name)])


def by_dtype(*dtypes: DTypeLike) -> Selector:
    """The columns of one of these types.

    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"a": [1], "b": ["x"]}).select(cs.by_dtype("int64")).columns
    ['a']
    """
    wanted = [to_dtype(dtype) for dtype in dtypes]
    return _typed("by_dtype", lambda dtype: any(dtype.equals(one) for one in wanted))


def numeric() -> Selector:
    """Integers, floats and decimals, also in a dictionary encoding.

    Where it chooses no column, a verb raises `PlanError`; so for all selectors here.

    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"a": [1], "f": [0.5], "s": ["x"]}).select(cs.numeric()).columns
    ['a', 'f']
    """
    return _typed("numeric", lambda dtype: kinds.numeric(dtype) is not None)


def integer() -> Selector:
    """Integers of any width, signed or not, also in a dictionary encoding.

    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"a": [1], "f": [0.5]}).select(cs.integer()).columns
    ['a']
    """
    return _typed("integer", lambda dtype: bool(t.is_integer(kinds.plain(dtype))))


def float() -> Selector:
    """Floats of any width.

    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"a": [1], "f": [0.5]}).select(cs.float()).columns
    ['f']
    """
    return _typed("float", lambda dtype: bool(t.is_floating(kinds.plain(dtype))))


def decimal() -> Selector:
    """Decimals of any precision.

    >>> from decimal import Decimal
    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"a": [1], "price": [Decimal("1.50")]}).select(cs.decimal()).columns
    ['price']
    """
    return _typed("decimal", lambda dtype: bool(t.is_decimal(kinds.plain(dtype))))


def string() -> Selector:
    """Texts, dictionaries of them too.

    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"a": [1], "s": ["x"]}).select(cs.string()).columns
    ['s']
    """
    return _typed("string", kinds.is_string)


def binary() -> Selector:
    """Bytes, of fixed width too.

    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"s": ["x"], "data": [b"x"]}).select(cs.binary()).columns
    ['data']
    """
    return _typed("binary", kinds.is_binary)


def boolean() -> Selector:
    """True or false.

    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"a": [1], "late": [True]}).select(cs.boolean()).columns
    ['late']
    """
    return _typed("boolean", kinds.is_boolean)


def date() -> Selector:
    """Dates; `datetime` has timestamps.

    >>> from datetime import date
    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"a": [1], "day": [date(2024, 1, 1)]}).select(cs.date()).columns
    ['day']
    """
    return _typed("date", kinds.is_date)


def datetime() -> Selector:
    """Timestamps, of any unit, with a zone or without.

    >>> from datetime import datetime
    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"a": [1], "at": [datetime(2024, 1, 1)]}).select(cs.datetime()).columns
    ['at']
    """
    return _typed("datetime", kinds.is_timestamp)


def temporal() -> Selector:
    """Dates, timestamps, times of day and durations.

    >>> from datetime import date, time
    >>> from fabric import DataFrame, selectors as cs
    >>> df = DataFrame({"a": [1], "day": [date(2024, 1, 1)], "at": [time(12)]})
    >>> df.select(cs.temporal()).columns
    ['day', 'at']
    """
    return _typed("temporal", lambda dtype: bool(t.is_temporal(dtype)))


def list() -> Selector:
    """Lists.

    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"a": [1], "tags": [["x", "y"]]}).select(cs.list()).columns
    ['tags']
    """
    return _typed("list", kinds.is_list)


def struct() -> Selector:
    """Structs.

    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"a": [1], "address": [{"city": "Bonn"}]}).select(cs.struct()).columns
    ['address']
    """
    return _typed("struct", kinds.is_struct)


def starts_with(*texts: str) -> Selector:
    """The columns whose name starts with one of `texts`; case counts.

    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"dep_time": [1], "arr_time": [2]}).select(cs.starts_with("dep")).columns
    ['dep_time']
    """
    return _named("cs.starts_with(...)", lambda name: name.startswith(texts))


def ends_with(*texts: str) -> Selector:
    """The columns whose name ends with one of `texts`; case counts.

    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"dep_time": [1], "dep_delay": [2]}).select(cs.ends_with("delay")).columns
    ['dep_delay']
    """
    return _named("cs.ends_with(...)", lambda name: name.endswith(texts))


def contains(*texts: str) -> Selector:
    """The columns whose name has one of `texts` in it; case counts.

    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"dep_time": [1], "tail": [2]}).select(cs.contains("_")).columns
    ['dep_time']
    """
    return _named("cs.contains(...)", lambda name: any(text in name for text in texts))


def matches(pattern: str) -> Selector:
    """The columns in whose name Python's `re` finds `pattern`; `PlanError` of a wrong one.

    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"x1": [1], "x_all": [2]}).select(cs.matches(r"^x[0-9]+$")).columns
    ['x1']
    """
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise PlanError(f"matches: {pattern!r} is not a valid pattern: {error}") from None
    return _named(f"cs.matches({pattern!r})", lambda name: compiled.search(name) is not None)


def exclude(*left_out: ManyNames) -> Selector:
    """Every column but these: names, lists of them and selectors.

    A name that is no column leaves nothing out.

    >>> from fabric import DataFrame, selectors as cs
    >>> DataFrame({"a": [1], "b": [2], "s": ["x"]}).select(cs.exclude("a", cs.string())).columns
    ['b']
    """
    rest = all().exclude(*left_out)
    return Selector(rest.names, "exclude(...)")


helpful_functions(globals())

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise no_function("fabric.selectors", name, globals())
