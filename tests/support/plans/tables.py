"""Random tables with the values that break engines, small enough that no expression overflows.

One job: columns of many types with nulls, NaN, -0.0, empty and non-ASCII strings, odd names. Floats
are quarters below 1000, so sums of them are exact in any order.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

_DAY = datetime.date(2013, 1, 1)
_TIME = datetime.datetime(2013, 1, 1)
_WORDS = (
    "",
    "a",
    "A",
    "AA",
    "UA",
    "b'c",
    " pad ",
    "é",
    "Ünï",
    "日本",
    "x,y",
    "JFK",
    "jfk",
    "a%b_c",
)


def _moment(rng: Random) -> datetime.datetime:
    micros = rng.choice((0, 0, rng.randint(0, 999_999)))
    return _TIME + datetime.timedelta(
        seconds=rng.randint(-40_000_000, 40_000_000), microseconds=micros
    )


def _zoned(rng: Random) -> datetime.datetime:
    return _moment(rng).replace(tzinfo=datetime.UTC)


def _maybe(rng: Random, value: Any) -> Any:
    return None if rng.random() < 0.15 else value


def _items(rng: Random, make: Callable[[], Any]) -> list[Any]:
    return [_maybe(rng, make()) for _ in range(rng.choice((0, 1, 1, 2, 3, 4)))]


_FLOATS = (0.0, -0.0, 1.5, -2.25, float("nan"))
_MAKERS: dict[str, tuple[pa.DataType, Callable[[Random], Any]]] = {
    "i8": (pa.int8(), lambda rng: rng.randint(-128, 127)),
    "i16": (pa.int16(), lambda rng: rng.randint(-300, 300)),
    "i32": (pa.int32(), lambda rng: rng.choice((0, 1, -1, rng.randint(-(2**31), 2**31 - 1)))),
    "i64": (pa.int64(), lambda rng: rng.choice((0, 1, 2, 3, rng.randint(-(2**40), 2**40)))),
    "u8": (pa.uint8(), lambda rng: rng.randint(0, 255)),
    "u32": (pa.uint32(), lambda rng: rng.choice((0, 7, 2**32 - 1))),
    "f32": (pa.float32(), lambda rng: rng.randint(-400, 400) / 4),
    "f64": (pa.float64(), lambda rng: rng.choice(
        (0.0, -0.0, 1.0, float("nan"), rng.randint(-4000, 4000) / 4))),
    "dec": (pa.decimal128(10, 2), lambda rng: Decimal(rng.randint(-99999, 99999)).scaleb(-2)),
    "str": (pa.string(), lambda rng: rng.choice(_WORDS)),
    "big": (pa.large_string(), lambda rng: rng.choice(_WORDS)),
    "dict": (pa.dictionary(pa.int32(), pa.string()), lambda rng: rng.choice(_WORDS[:5])),
    "bool": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "date": (pa.date32(), lambda rng: _DAY + datetime.timedelta(days=rng.randint(-500, 400))),
    "ts": (pa.timestamp("us"), _moment),
    "tz": (pa.timestamp("us", "UTC"), _moment),
    "zulu": (pa.timestamp("us", "Etc/UTC"), _zoned),  # DuckDB knows no zone of a column
    "ms": (pa.timestamp("ms"), lambda rng: _moment(rng).replace(microsecond=0)),
    "li": (pa.list_(pa.int32()), lambda rng: _items(rng, lambda: rng.randint(-9, 99))),
    "ls": (pa.list_(pa.string()), lambda rng: _items(rng, lambda: rng.choice(_WORDS))),
    "lf": (pa.large_list(pa.float64()), lambda rng: _items(rng, lambda: rng.choice(_FLOATS))),
    "st": (pa.struct([("a", pa.int32()), ("b", pa.string())]),
           lambda rng: {"a": _maybe(rng, rng.randint(0, 3)), "b": _maybe(rng, rng.choice(_WORDS))}),
    "key": (pa.int32(), lambda rng: rng.randint(0, 9)),
}  # fmt: skip
_ODD_NAMES = ("a b", 'q"q', "select", "Ünï", "A", "a", "it's", "x.y", "c0", "0.sum", "")


def random_tables(rng: Random, n_tables: int = 3, rows_max: int = 60) -> dict[str, pa.Table]:
    """Tables by name; about one in eight values is null, one table in 25 has no rows.

    >>> sorted(random_tables(Random(1), 2))
    ['table_0', 'table_1']
    """
    return {f"table_{i}": _table(rng, rows_max) for i in range(n_tables)}


def _table(rng: Random, rows_max: int) -> pa.Table:
    n_rows = 0 if rng.random() < 0.04 else rng.randint(1, rows_max)
    kinds = ["str", "key", *rng.sample(sorted(set(_MAKERS) - {"key"}), rng.randint(2, 6))]
    names = rng.sample(_ODD_NAMES, 3) if rng.random() < 0.3 else []
    names += [f"{kind}_{i}" for i, kind in enumerate(kinds[len(names) :])]
    arrays = [_array(rng, kind, n_rows) for kind in kinds]
    table = pa.Table.from_arrays(arrays, names=names[: len(kinds)])
    half = n_rows // 2
    return pa.concat_tables([table.slice(0, half), table.slice(half)])


def _array(rng: Random, kind: str, n_rows: int) -> pa.Array:
    dtype, make = _MAKERS[kind]
    values = [None if rng.random() < 0.12 else make(rng) for _ in range(n_rows)]
    if pa.types.is_dictionary(dtype):
        return pa.array(values, dtype.value_type).dictionary_encode()
    return pa.array(values, dtype)
