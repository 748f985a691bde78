"""Spark's ANSI casts in DuckDB SQL.

One job: towards integers a fraction is cut (DuckDB rounds), a string must be a whole number; a
float goes to a decimal by its shortest text. Float to string has no translation: Java prints its
own way.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.total import total_cast
from fabric.plan.types import is_nested, is_string, numeric, plain
from tests.support.duckdb.types import type_sql


def cast_sql(sql: str, source: pa.DataType, target: pa.DataType, try_: bool) -> str:
    """``CAST`` of `sql`; a value that does not fit fails, with `try_` it is null."""
    source, target = plain(source), plain(target)
    if source.equals(target):
        return sql
    if is_nested(source) and (t.is_struct(source) or not total_cast(source, target)):
        raise ValueError(f"no SQL for a cast from {source} to {target}")
    cast = "TRY_CAST" if try_ else "CAST"
    name = type_sql(target)
    number = numeric(source)
    if is_string(target) and number is not None and t.is_floating(number):
        raise ValueError("no SQL for a float as a string")
    if t.is_timestamp(source) and numeric(target) is not None:
        seconds = f"(CAST(epoch_us({sql}) AS DECIMAL(28,0)) / 1000000)"
        whole = f"floor({seconds})" if t.is_integer(target) else seconds
        return f"{cast}({whole} AS {name})"
    if t.is_timestamp(target) and number is not None:
        micros = f"CAST({sql} * 1000000 AS BIGINT)"
        return f"make_timestamp({micros})"
    if t.is_integer(target) and number is not None and not t.is_integer(number):
        return f"{cast}(trunc({sql}) AS {name})"
    if t.is_decimal(target) and number is not None and t.is_floating(number):
        return f"{cast}(CAST(CAST({sql} AS DOUBLE) AS VARCHAR) AS {name})"
    if is_string(source) and t.is_integer(target):
        return _whole(sql, name, try_)
    return f"{cast}({sql} AS {name})"


def _whole(sql: str, name: str, try_: bool) -> str:
    """A string as an integer: blanks around it are fine, a fraction is not."""
    text = f"trim({sql})"
    if try_:
        good = f"regexp_full_match({text}, '[+-]?[0-9]+')"
        return f"CASE WHEN {good} THEN TRY_CAST({text} AS {name}) END"
    bad = f"{sql} IS NOT NULL AND NOT regexp_full_match({text}, '[+-]?[0-9]+')"
    return f"CASE WHEN {bad} THEN error('invalid number') ELSE CAST({text} AS {name}) END"
