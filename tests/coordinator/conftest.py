"""Plans in few words, for the tests of optimizer and planner."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from fabric.plan.expr import Alias, Call, Column, Expr, Literal
from fabric.plan.nodes import Scan
from fabric.plan.sources import FileSource, MemorySource


def _value(value: Any) -> Expr:
    if isinstance(value, str):
        return Column(value)
    if isinstance(value, int):
        return Literal(value, pa.int64())
    return value


def call(function: str, *args: Any) -> Expr:
    """A call; strings are columns, ints are int64 constants."""
    return Call(function, tuple(_value(arg) for arg in args))


def alias(expr: Any, name: str) -> Expr:
    return Alias(_value(expr), name)


def both(*parts: Expr) -> Expr:
    """A conjunction, nested to the left as users write it."""
    joined = parts[0]
    for part in parts[1:]:
        joined = Call("and", (joined, part))
    return joined


def table(path: str = "t", **types: pa.DataType) -> Scan:
    """A scan of memory: no predicate can go there."""
    schema = pa.schema(types or {"a": pa.int64(), "b": pa.int64(), "s": pa.string()})
    return Scan(MemorySource(path, 0), schema, path=path)


def file(path: str = "f", **types: pa.DataType) -> Scan:
    schema = pa.schema(types or {"a": pa.int64(), "b": pa.int64(), "s": pa.string()})
    return Scan(FileSource("parquet", (f"/{path}.parquet",)), schema, path=path)


@pytest.fixture
def p() -> SimpleNamespace:
    """The words above under one short name."""
    return SimpleNamespace(call=call, alias=alias, both=both, table=table, file=file)
