"""Snippets that mean the same in Polars and in Fabric: how they are read, run and compared.

One job: from the text files in `polars/` to rows of both. A file holds snippets over the tables of
`TABLES`, one a line, which are Python over the names ``df`` (the table named by the line ``@ name``
above), ``other`` (the table ``other``) and ``pl`` (Polars, or Fabric)::

    @ texts
    df.select(r=pl.col("s").str.contains("a."))

Rows are compared in no order, unless the snippet sorts last. Widths of integers and floats are not
compared, kinds of types and zones are.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
from pyarrow import types as t

import fabric

FOLDER = Path(__file__).parent / "polars"
NAN, INF = float("nan"), float("inf")
BERLIN = "Europe/Berlin"


def _instants(*texts: str | None) -> pa.Array:
    known = [None if text is None else datetime.fromisoformat(text) for text in texts]
    return pa.array(known, pa.timestamp("us", BERLIN))


TABLES: dict[str, pa.Table] = {
    "numbers": pa.table(
        {
            "i": pa.array([7, -7, 0, None, 12, -1], pa.int64()),
            "j": pa.array([2, 2, 3, 4, None, -5], pa.int64()),
            "f": pa.array([2.5, -2.5, NAN, None, INF, -0.0]),
            "g": pa.array([2.0, 0.75, 1.0, 3.0, -INF, -0.5]),
            "k": pa.array(["a", "b", "a", None, "b", "a"]),
            "b": pa.array([True, False, None, True, False, True]),
            "m": pa.array([Decimal("7.50"), Decimal("-7.50"), Decimal("0.25"), None, Decimal(3),
                           Decimal("-0.10")], pa.decimal128(10, 2)),
        }
    ),
    "texts": pa.table(
        {
            "s": pa.array(["apple", "a.c abc", "", None, "Ünïcode ß ñ", "x1 y22 z333", "  pad ",
                           "ΣΑΣ", "a\nb", "tail$1", "٣ three", "日本 語"]),
            "u": pa.array(["a", "b", None, "d", "e", "x", "p", "s", "", "$", "t", "日"]),
            "n": pa.array([1, 2, 3, 4, None, 6, 7, 8, 9, 10, 11, 12], pa.int64()),
        }
    ),
    "blanks": pa.table(
        {
            "s": pa.array(["\tx\n", "\u00a0x y\u3000", "x\x85", "\x1cx\x0b", None, "\u2003+7\u2028",
                           "-7", ""]),
            "p": pa.array(["\t", None, "x", "", "p", None, "-7", ""]),
            "n": pa.array([4, None, 3, 5, 6, None, 5, 2], pa.int64()),
        }
    ),
    "dated": pa.table(
        {
            "s": pa.array(["2024-02-29", "1999-12-31", None, "2024-03-31"]),
            "x": pa.array(["2024-02-29 13:05:09", "1999-12-31 00:00:00", None,
                           "2024-03-31 02:30:00"]),
            "e": pa.array(["29/02/24 01:05 PM", "31/12/99 12:00 AM", None, "31/03/24 02:30 AM"]),
            "bad": pa.array(["2024-02-30", "1999-12-31", None, "no"]),
            "o": pa.array(["2024-01-02T03:04:05Z", "2024-01-02 03:04:05.5+02:00", None,
                           "2024-01-02T03:04:05-07:00"]),
            "z": pa.array(["2024-02-29 13:05:09 +0100", "1999-12-31 00:00:00 -0530", None,
                           "2024-03-31 02:30:00 +0000"]),
        }
    ),
    "times": pa.table(
        {
            "t": pa.array([datetime(2024, 2, 29, 13, 5, 9, 123_456), datetime(1969, 12, 31, 23, 59),
                           None, datetime(2024, 12, 30, 0, 0)], pa.timestamp("us")),
            "z": _instants("2024-03-31T00:59:59+00:00", "2024-03-31T01:00:00+00:00", None,
                           "2024-10-27T00:30:00+00:00"),
            "y": pa.array([datetime(2024, 6, 30, 23, 30), datetime(1970, 1, 1), None,
                           datetime(2024, 12, 31, 23, 45)], pa.timestamp("us", "UTC")),
            "d": pa.array([date(2024, 2, 29), date(1969, 12, 31), None, date(2024, 12, 30)]),
            "n": pa.array([1, -2, 3, None], pa.int64()),
        }
    ),
    "zoned": pa.table(
        {
            "z": _instants("2024-01-15T22:30:00+00:00", "2024-07-15T22:30:00+00:00", None,
                           "2024-10-27T00:30:00+00:00", "2024-10-27T01:30:00+00:00",
                           "2024-03-31T00:59:59.999999+00:00", "2024-03-31T01:00:00+00:00",
                           "1970-01-01T00:00:00+00:00", "2023-12-31T23:00:00+00:00"),
            "w": pa.array([datetime(2024, 1, 15, 12), datetime(2024, 3, 31, 2, 30), None,
                           datetime(2024, 10, 27, 2, 30), datetime(2024, 10, 27, 3, 0),
                           datetime(2024, 7, 1), datetime(1970, 1, 1),
                           datetime(2024, 10, 27, 1, 59), datetime(2024, 3, 31, 3, 0)],
                          pa.timestamp("us")),
            "safe": pa.array([datetime(2024, 1, 15, 12), datetime(2024, 7, 1), None] * 3,
                             pa.timestamp("us")),
            "n": pa.array([1, 2, 3, 4, 5, 6, 7, 8, None], pa.int64()),
        }
    ),
    "lists": pa.table(
        {
            "l": pa.array([[1, 2, 2], [], None, [None], [3, None, 1], [5]], pa.list_(pa.int64())),
            "r": pa.array([[2, 9], [1], [1], [None, 1], None, [5, 5]], pa.list_(pa.int64())),
            "s": pa.array([["a", "b"], [], None, [None], ["c", None, "a"], ["日"]]),
            "q": pa.array([[True, False], [], None, [None], [True, None], [False, None]]),
            "f": pa.array([[1.5, NAN], [], None, [None], [INF, None, -1.0], [0.0]]),
            "i": pa.array([0, 1, 2, -1, 5, None], pa.int64()),
        }
    ),
    "groups": pa.table(
        {
            "k": pa.array(["a", "a", "b", None, "b", None, "c"]),
            "v": pa.array([1, None, 3, 4, 3, None, None], pa.int64()),
            "x": pa.array([1.0, 2.0, None, 4.5, -1.5, 4.5, None]),
            "w": pa.array([10, 20, 30, 40, 50, 60, 70], pa.int64()),
            "c": pa.array(["p", "q", "p", None, "p", "q", None]),
            "b": pa.array([True, None, False, False, None, True, None]),
        }
    ),
    "other": pa.table(
        {
            "k": pa.array(["a", "b", None, "z"]),
            "y": pa.array([100, 200, 300, None], pa.int64()),
            "v": pa.array([1, 3, 4, 9], pa.int64()),
        }
    ),
    "structs": pa.table(
        {
            "st": pa.array([{"a": 1, "b": "x"}, {"a": None, "b": "y"}, None]),
            "a": pa.array([1, 2, None], pa.int64()),
            "p": pa.array(["one", None, "three"]),
        }
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Snippet:
    """A line of a file."""

    file: str
    table: str
    text: str

    @property
    def is_ordered(self) -> bool:
        """Whether the last thing it does is a sort."""
        return re.search(r"\.(sort|head|limit|with_row_index)\([^()]*\)$", self.text) is not None


@dataclass(frozen=True)
class Rows:
    """Names, kinds of types and rows, in order or not."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def snippets() -> list[Snippet]:
    """All of the folder, in order."""
    found = []
    for path in sorted(FOLDER.glob("*.txt")):
        table = ""
        for line in path.read_text("utf-8").splitlines():
            if line.startswith("@ "):
                table = line[2:].strip()
            elif line.strip() and not line.startswith("#"):
                found.append(Snippet(path.stem, table, line.strip()))
    return found


@cache
def _polars(name: str) -> Any:
    return polars.from_arrow(TABLES[name])


def by_polars(table: str, text: str, *, ordered: bool = False) -> Rows:
    """What Polars answers."""
    names = _names(_polars(table), _polars("other"), polars)
    return rows_of(eval(text, names).to_arrow(), ordered=ordered)


def by_fabric(table: str, text: str, *, ordered: bool = False, engine: Any = None) -> Rows:
    """What Fabric answers: embedded, or on another engine."""
    frames = (fabric.from_arrow(TABLES[name]) for name in (table, "other"))
    frame = eval(text, _names(*frames, fabric))
    return rows_of(frame.collect(engine=engine), ordered=ordered)


def _names(df: Any, other: Any, module: Any) -> dict[str, Any]:
    return {"df": df, "other": other, "pl": module, "date": date, "datetime": datetime,
            "timedelta": timedelta, "Decimal": Decimal, "nan": NAN, "inf": INF}  # fmt: skip


def rows_of(table: pa.Table, *, ordered: bool) -> Rows:
    """A table in a form that compares: sorted when its order is open."""
    columns = [[_value(v) for v in column.to_pylist()] for column in table.columns]
    rows = list(zip(*columns, strict=True))
    return Rows(
        tuple(table.column_names),
        tuple(map(kind, table.schema.types)),
        tuple(rows if ordered else sorted(rows, key=repr)),
    )


def kind(dtype: pa.DataType) -> str:
    """What a type is, whatever its width or layout."""
    if isinstance(dtype, pa.DictionaryType):
        return kind(dtype.value_type)
    if t.is_integer(dtype) or t.is_floating(dtype):
        return "integer" if t.is_integer(dtype) else "float"
    if t.is_string(dtype) or t.is_large_string(dtype) or t.is_string_view(dtype):
        return "text"
    if t.is_timestamp(dtype):
        return f"timestamp of {dtype.tz}"
    if t.is_struct(dtype):
        return f"struct<{', '.join(f'{f.name}: {kind(f.type)}' for f in dtype.fields)}>"
    if hasattr(dtype, "value_type"):
        return f"list<{kind(dtype.value_type)}>"
    names = {"decimal": t.is_decimal, "bytes": lambda d: t.is_binary(d) or t.is_large_binary(d)
             or t.is_binary_view(d), "duration": t.is_duration}  # fmt: skip
    return next((name for name, test in names.items() if test(dtype)), str(dtype).split("[")[0])


def _value(value: Any) -> Any:
    """Floats to 12 digits, NaN as text, instants in UTC."""
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return value if math.isinf(value) else float(f"{value:.12g}")
    if isinstance(value, list):
        return tuple(map(_value, value))
    if isinstance(value, dict):
        return tuple((name, _value(inner)) for name, inner in value.items())
    if isinstance(value, datetime) and value.tzinfo is not None:
        return f"{value.astimezone(tz=None).timestamp():.6f}"
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    return value


def difference(ours: Rows, theirs: Rows) -> str:
    """What is not equal, in a line; empty when all is."""
    if ours.names != theirs.names:
        return f"columns {ours.names}, Polars {theirs.names}"
    if ours.kinds != theirs.kinds:
        return f"types {ours.kinds}, Polars {theirs.kinds}"
    if len(ours.rows) != len(theirs.rows):
        return f"{len(ours.rows)} rows, Polars {len(theirs.rows)}"
    pairs = zip(ours.rows, theirs.rows, strict=True)
    return next((f"{a!r}, Polars {b!r}" for a, b in pairs if repr(a) != repr(b)), "")


def answer(ask: Any, table: str, text: str) -> str:
    """What `by_polars` or `by_fabric` says to a snippet, in a line; errors by their first words."""
    try:
        found = ask(table, text, ordered=".sort(" in text)
    except Exception as error:
        first = re.split(r"[;\n(]", str(error))[0].strip()
        return f"an error: {first[:90]}"
    rows = [row[0] if len(row) == 1 else row for row in found.rows]
    kinds = found.kinds[0] if len(found.kinds) == 1 else ", ".join(found.kinds)
    return f"{kinds}: {', '.join(map(_shown, rows))}"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    return "null" if value is None else str(value)
