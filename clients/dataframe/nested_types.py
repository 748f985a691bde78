"""Names of list and struct types, as Arrow, Spark and Polars people write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pyarrow as pa

_LIST = re.compile(r"(?:list|array)<(?:(?:item|element): )?(.+)>", re.IGNORECASE | re.DOTALL)
_STRUCT = re.compile(r"struct<(.+)>", re.IGNORECASE | re.DOTALL)


def nested_dtype(name: str, inner: Callable[[str], pa.DataType]) -> pa.DataType | None:
    """The type that ``list<...>``, ``array<...>`` or ``struct<...>`` names, or None.

    >>> nested_dtype("list<item: int64>", pa.type_for_alias)
    ListType(list<item: int64>)
    """
    if match := _LIST.fullmatch(name):
        return pa.list_(inner(match[1]))
    if match := _STRUCT.fullmatch(name):
        fields = (field.partition(":") for field in _fields(match[1]))
        return pa.struct([(field.strip(), inner(dtype.strip())) for field, _, dtype in fields])
    return None


def _fields(text: str) -> Iterator[str]:
    """The parts between commas that are in no brackets."""
    depth = begin = 0
    for index, sign in enumerate(text):
        depth += (sign in "<([") - (sign in ">)]")
        if sign == "," and depth == 0:
            yield text[begin:index]
            begin = index + 1
    yield text[begin:]
