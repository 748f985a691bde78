"""Exact decimal arithmetic in SQL, by whole numbers of 128 bits, rounding half away from zero.

One job: what DuckDB's decimals do not do as Spark's: quotients, and results that lose digits.
"""

from __future__ import annotations

import pyarrow as pa


def unscaled(sql: str, scale: int) -> str:
    """A decimal of `scale` digits without its point."""
    text = f"CAST({sql} AS VARCHAR)"
    return f"CAST({text if scale == 0 else f'''replace({text}, '.', '')'''} AS HUGEINT)"


def half_up(numerator: str, denominator: str) -> str:
    """The quotient of two whole numbers as a whole number, half away from zero."""
    n, d = f"abs({numerator})", f"abs({denominator})"
    sign = f"sign({numerator}) * sign({denominator})"
    return f"(CAST({sign} AS HUGEINT) * ((2 * {n} + {d}) // (2 * {d})))"


def scaled(whole: str, dtype: pa.DataType) -> str:
    """A whole number with the point put in, as the decimal `dtype`."""
    name = f"DECIMAL({dtype.precision},{dtype.scale})"
    if dtype.scale == 0:
        return f"CAST({whole} AS {name})"
    unit = f"{10**dtype.scale}::HUGEINT"
    sign = f"CASE WHEN {whole} < 0 THEN '-' ELSE '' END"
    fraction = f"lpad(CAST(abs({whole}) % {unit} AS VARCHAR), {dtype.scale}, '0')"
    text = f"{sign} || CAST(abs({whole}) // {unit} AS VARCHAR) || '.' || {fraction}"
    return f"CAST({text} AS {name})"


def quotient(numerator: str, denominator: str, dtype: pa.DataType) -> str:
    """``numerator / denominator``, both whole, rounded to whole, with the point of `dtype`."""
    return scaled(half_up(numerator, f"{denominator}::HUGEINT"), dtype)


def rescaled(whole: str, scale: int, dtype: pa.DataType) -> str:
    """A whole number of `scale` digits after the point as the decimal `dtype`."""
    if scale <= dtype.scale:
        return scaled(f"({whole} * {10 ** (dtype.scale - scale)}::HUGEINT)", dtype)
    return scaled(half_up(whole, f"{10 ** (scale - dtype.scale)}::HUGEINT"), dtype)
