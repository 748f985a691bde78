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
    """Every column."""
    return Selector(lambda schema: [*schema.names], "all()")


def by_name(*names: str) -> Selector:
    """The columns of these names."""
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
    """Integers, floats and decimals."""
    return _typed("numeric", lambda dtype: kinds.numeric(dtype) is not None)


def integer() -> Selector:
    """Integers."""
    return _typed("integer", lambda dtype: bool(t.is_integer(kinds.plain(dtype))))


def float() -> Selector:
    """Floats."""
    return _typed("float", lambda dtype: bool(t.is_floating(kinds.plain(dtype))))


def decimal() -> Selector:
    """Decimals."""
    return _typed("decimal", lambda dtype: bool(t.is_decimal(kinds.plain(dtype))))


def string() -> Selector:
    """Texts, dictionaries of them too."""
    return _typed("string", kinds.is_string)


def binary() -> Selector:
    """Bytes."""
    return _typed("binary", kinds.is_binary)


def boolean() -> Selector:
    """True or false."""
    return _typed("boolean", kinds.is_boolean)


def date() -> Selector:
    """Dates."""
    return _typed("date", kinds.is_date)


def datetime() -> Selector:
    """Timestamps."""
    return _typed("datetime", kinds.is_timestamp)


def temporal() -> Selector:
    """Dates, timestamps, times of day and durations."""
    return _typed("temporal", lambda dtype: bool(t.is_temporal(dtype)))


def list() -> Selector:
    """Lists."""
    return _typed("list", kinds.is_list)


def struct() -> Selector:
    """Structs."""
    return _typed("struct", kinds.is_struct)


def starts_with(*texts: str) -> Selector:
    """The columns whose name starts with one of `texts`."""
    return _named("cs.starts_with(...)", lambda name: name.startswith(texts))


def ends_with(*texts: str) -> Selector:
    """The columns whose name ends with one of `texts`."""
    return _named("cs.ends_with(...)", lambda name: name.endswith(texts))


def contains(*texts: str) -> Selector:
    """The columns whose name has one of `texts` in it."""
    return _named("cs.contains(...)", lambda name: any(text in name for text in texts))


def matches(pattern: str) -> Selector:
    """The columns in whose name Python's `re` finds `pattern`."""
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise PlanError(f"matches: {pattern!r} is not a valid pattern: {error}") from None
    return _named(f"cs.matches({pattern!r})", lambda name: compiled.search(name) is not None)


def exclude(*left_out: ManyNames) -> Selector:
    """Every column but these: names, lists of them and selectors."""
    rest = all().exclude(*left_out)
    return Selector(rest.names, "exclude(...)")


helpful_functions(globals())

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise no_function("fabric.selectors", name, globals())
