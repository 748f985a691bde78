"""Whether two answers to one plan are the same rows, where the last digits of floats are open.

One job: `unlike`. Rows count, their order does not; floats may differ by `tolerance` of their size,
or of 1 below that. Everything else is exact.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import pyarrow as pa

from fabric.clients.demo.checksum import checksum, rows

__all__ = ["unlike"]

_SHOWN = 3


def unlike(found: pa.Table, expected: pa.Table, tolerance: float = 1e-9) -> str:
    """The first rows that differ, in words; "" when there are none.

    >>> a, b = pa.table({"x": [1.0, 2.0]}), pa.table({"x": [2.0 + 1e-15, 1.0]})
    >>> unlike(a, b), unlike(a, a.slice(1))
    ('', '2 rows, expected 1')
    """
    if checksum(found) == checksum(expected):
        return ""
    if found.num_rows != expected.num_rows:
        return f"{found.num_rows} rows, expected {expected.num_rows}"
    pairs = zip(_sorted(found), _sorted(expected), strict=True)
    wrong = (pair for pair in pairs if not _alike(*pair, tolerance))
    return "; ".join(f"{row}, expected {other}" for row, other in islice(wrong, _SHOWN))


def _sorted(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(rows(table), key=_key)


def _key(row: tuple[Any, ...]) -> tuple[list[str], list[str]]:
    """What is exact, then floats to few digits: rows alike are at one place in both lists."""
    floats = [f"{value:.5g}" for value in row if isinstance(value, float)]
    return [repr(value) for value in row if not isinstance(value, float)], floats


def _alike(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_alike(x, y, tolerance) for x, y in zip(a, b, strict=True))
    return bool(a == b)
