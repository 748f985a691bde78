"""The golden expression table: how its files are read, and how values are compared.

One job: from JSON to expressions and arrays. A file holds columns and cases over them::

    {"about": "...",
     "columns": {"a": ["int64", [1, null]]},
     "answers": [["add(c.a, 1)", "int64", [2, null]]],
     "errors":  [["divide(c.a, 0)", [0], "DIVIDE_BY_ZERO"]]}

An error case is run on the given rows only, and names Spark's error condition. Expressions are
Python over the names of `NAMES`. Floats that JSON has not are strings, so are decimals and days;
binary is hexadecimal, a struct is the list of its fields; times that Python has not are numbers.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from math import isclose, isfinite
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.expr import Alias, Call, Case, Cast, Column, Expr, IsIn, Literal
from fabric.plan.functions import FUNCTIONS
from fabric.plan.types import is_binary

FOLDER = Path(__file__).parent / "expressions"
EPOCH = datetime(1970, 1, 1)
RELATIVE = 1e-9
MESSAGES = {
    "DIVIDE_BY_ZERO": "division by zero",
    "REMAINDER_BY_ZERO": "division by zero",
    "ARITHMETIC_OVERFLOW": "overflow",
    "BINARY_ARITHMETIC_OVERFLOW": "overflow",
    "DATETIME_OVERFLOW": "overflow",
    "CAST_OVERFLOW": "overflow",
    "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION": "overflow",
    "NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION": "overflow",
    "NUMERIC_OUT_OF_SUPPORTED_RANGE": "overflow",
    "CAST_INVALID_INPUT": "is no",
    "CANNOT_PARSE_TIMESTAMP": "is no",
    "INVALID_INDEX_OF_ZERO": "no part 0",
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT": "lies outside a list",
    "INVALID_PARAMETER_VALUE.START": "the start of a slice",
    "INVALID_PARAMETER_VALUE.LENGTH": "the length of a slice",
    "DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION": "is no",
    "INVALID_FRACTION_OF_SECOND": "is no",
    "CONVERSION_INVALID_INPUT": "is no",
    "USER_RAISED_EXCEPTION": "clocks in|to a power below 0",
}
"""What our error says where Spark's has this condition: one of the texts between `|`."""


def dtype(name: str) -> pa.DataType:
    """An Arrow type from its name in the table."""
    if found := re.fullmatch(r"decimal\((\d+), ?(\d+)\)", name):
        return pa.decimal128(int(found[1]), int(found[2]))
    if found := re.fullmatch(r"list<(.+)>", name):
        return pa.list_(dtype(found[1]))
    if found := re.fullmatch(r"struct<(.+)>", name):
        parts = (part.split(": ", 1) for part in _split(found[1]))
        return pa.struct([(field, dtype(inner)) for field, inner in parts])
    if found := re.fullmatch(r"timestamp\[(\w+)(?:, (.+))?\]", name):
        return pa.timestamp(found[1], found[2])
    if found := re.fullmatch(r"(dictionary|duration|fixed)[<\[](.+)[>\]]", name):
        inner = found[2]
        if found[1] == "dictionary":
            return pa.dictionary(pa.int32(), dtype(inner))
        return pa.duration(inner) if found[1] == "duration" else pa.binary(int(inner))
    return getattr(pa, {"bool": "bool_", "float16": "float16"}.get(name, name))()


def _split(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    cut = [i for i, sign in enumerate(text) if sign == "," and _depth(text[:i]) == 0]
    ends = zip([-2, *cut], [*cut, len(text)], strict=True)
    return [text[begin + 2 : end] for begin, end in ends]


def _depth(text: str) -> int:
    return sum((sign in "<[(") - (sign in ">])") for sign in text)


def dtype_name(kind: pa.DataType) -> str:
    """The name of a type in the table."""
    if t.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if t.is_timestamp(kind):
        return f"timestamp[{kind.unit}, {kind.tz}]" if kind.tz else f"timestamp[{kind.unit}]"
    if t.is_dictionary(kind):
        return f"dictionary<{dtype_name(kind.value_type)}>"
    if t.is_duration(kind) or t.is_fixed_size_binary(kind):
        return str(kind).replace("_size_binary", "")
    if t.is_list(kind):
        return f"list<{dtype_name(kind.value_type)}>"
    if t.is_struct(kind):
        return f"struct<{', '.join(f'{f.name}: {dtype_name(f.type)}' for f in kind.fields)}>"
    names = {"double": "float64", "float": "float32", "halffloat": "float16"}
    return names.get(str(kind), str(kind).split("[")[0])


def array(name: str, values: list[Any]) -> pa.Array:
    """An array from a type's name and JSON values."""
    kind = dtype(name)
    if t.is_dictionary(kind):
        return array(dtype_name(kind.value_type), values).dictionary_encode().cast(kind)
    if t.is_list(kind):
        items = array(dtype_name(kind.value_type), [item for v in values for item in v or ()])
        ends = accumulate((len(v or ()) for v in values), initial=0)
        missing = pa.array([v is None for v in values])
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, mask=missing)
    if t.is_struct(kind):
        rows = [[None] * kind.num_fields if v is None else v for v in values]
        parts = [array(dtype_name(f.type), [r[i] for r in rows]) for i, f in enumerate(kind.fields)]
        missing = pa.array([v is None for v in values])
        return pa.StructArray.from_arrays(parts, fields=list(kind.fields), mask=missing)
    if t.is_decimal(kind):
        return pa.array([None if v is None else Decimal(v) for v in values], kind)
    if t.is_floating(kind):
        return pa.array([None if v is None else float(v) for v in values], kind)
    if is_binary(kind):
        return pa.array([None if v is None else bytes.fromhex(v) for v in values], kind)
    if t.is_timestamp(kind):
        raw = [_micros(v) for v in values]
        stamps = pa.array(raw, pa.int64()).view(pa.timestamp("us"))
        return stamps.cast(pa.timestamp(kind.unit)).view(kind)
    if t.is_date32(kind):
        days = [v if v is None or isinstance(v, int) else _days(v) for v in values]
        return pa.array(days, pa.int32()).view(kind)
    if t.is_duration(kind) or t.is_date64(kind):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)


def _days(text: str) -> int:
    return date.fromisoformat(text).toordinal() - EPOCH.toordinal()


def _micros(value: Any) -> int | None:
    if value is None or isinstance(value, int):
        return value
    return (datetime.fromisoformat(value) - EPOCH) // timedelta(microseconds=1)


def encoded(values: pa.Array) -> list[Any]:
    """JSON values of an array; `array` reads them back."""
    kind = values.type
    if t.is_dictionary(kind):
        return encoded(values.cast(kind.value_type))
    if t.is_list(kind):
        return [None if not v.is_valid else encoded(v.values) for v in values]
    if t.is_struct(kind):
        rows = zip(values.is_valid(), *map(encoded, values.flatten()), strict=True)
        return [list(row) if valid.as_py() else None for valid, *row in rows]
    if t.is_timestamp(kind):
        raw = values.view(pa.timestamp(kind.unit)).cast(pa.timestamp("us"))
        return [None if v is None else _stamp(v) for v in raw.view(pa.int64()).to_pylist()]
    if t.is_date32(kind):
        return [None if v is None else _day(v) for v in values.view(pa.int32()).to_pylist()]
    if t.is_duration(kind) or t.is_date64(kind):
        values = values.view(pa.int64())
    return [None if v is None else _plain(v) for v in values.to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) and repr(value) != "-0.0" else str(value)
    if isinstance(value, bytes):
        return value.hex()
    return format(value, "f") if isinstance(value, Decimal) else value


def _day(days: int) -> str | int:
    ordinal = days + EPOCH.toordinal()
    return date.fromordinal(ordinal).isoformat() if 0 < ordinal <= 3_652_059 else days


def _stamp(micros: int) -> str | int:
    try:
        return (EPOCH + timedelta(microseconds=micros)).isoformat(sep=" ")
    except OverflowError:
        return micros


def lit(value: Any, name: str | None = None) -> Literal:
    """A constant; without a type's name of the type PySpark would take."""
    if name is not None:
        return Literal(array(name, [value])[0].as_py(), dtype(name))
    if value is None:
        return Literal(None, pa.null())
    if isinstance(value, bool):
        return Literal(value, pa.bool_())
    if isinstance(value, int):
        return Literal(value, pa.int32() if -(2**31) <= value < 2**31 else pa.int64())
    return Literal(value, pa.float64() if isinstance(value, float) else pa.string())


def _expr(value: Any) -> Expr:
    return value if isinstance(value, Expr) else lit(value)


def _call(name: str) -> Any:
    return lambda *args: Call(name, tuple(map(_expr, args)))


class _Columns:
    def __getattr__(self, name: str) -> Column:
        return Column(name)


NAMES: dict[str, Any] = {
    "c": _Columns(),
    "lit": lit,
    "case": lambda *parts: Case(
        tuple((_expr(test), _expr(value)) for test, value in parts[:-1]), _expr(parts[-1])
    ),
    "cast": lambda value, name: Cast(_expr(value), dtype(name)),
    "try_cast": lambda value, name: Cast(_expr(value), dtype(name), True),
    "is_in": lambda value, *values: IsIn(_expr(value), tuple(map(_expr, values))),
    "alias": lambda value, name: Alias(_expr(value), name),
    **{f"{name}_" if name in ("and", "or", "not") else name: _call(name) for name in FUNCTIONS},
}


@dataclass(frozen=True)
class Answer:
    """An expression with the value of every row."""

    text: str
    batch: pa.RecordBatch
    expected: pa.Array

    @property
    def expr(self) -> Expr:
        return expression(self.text)


@dataclass(frozen=True)
class Failure:
    """An expression that raises on these rows, with Spark's name for the error."""

    text: str
    batch: pa.RecordBatch
    condition: str

    @property
    def expr(self) -> Expr:
        return expression(self.text)


@dataclass(frozen=True)
class GoldenFile:
    """One file of the table."""

    name: str
    batch: pa.RecordBatch
    answers: tuple[Answer, ...]
    failures: tuple[Failure, ...]


def expression(text: str) -> Expr:
    """The expression that a text of the table stands for."""
    found = eval(text, {"__builtins__": {}}, NAMES)
    return _expr(found)


def load(path: Path) -> GoldenFile:
    """Read one file."""
    data = json.loads(path.read_text("utf-8"))
    columns = {name: array(*column) for name, column in data["columns"].items()}
    batch = pa.record_batch(columns)
    answers = tuple(Answer(text, batch, array(kind, v)) for text, kind, v in data["answers"])
    failures = tuple(
        Failure(text, some_rows(batch, rows), condition) for text, rows, condition in data["errors"]
    )
    return GoldenFile(path.stem, batch, answers, failures)


def some_rows(batch: pa.RecordBatch, rows: list[int]) -> pa.RecordBatch:
    """Some rows, also of types that Arrow can't take from."""
    return (
        pa.Table.from_batches([batch.slice(row, 1) for row in rows])
        .combine_chunks()
        .to_batches()[0]
    )


def all_files() -> list[GoldenFile]:
    """The whole table."""
    return [load(path) for path in sorted(FOLDER.glob("*.json"))]


def differences(got: pa.Array, expected: pa.Array) -> list[str]:
    """What is not equal: the type, or rows; NaN equals NaN, -0.0 is not 0.0.

    The last bits of a float may differ, because engines compute sines and powers each their way.
    """
    if got.type != expected.type:
        return [f"type {got.type}, expected {expected.type}"]
    if len(got) != len(expected):
        return [f"{len(got)} rows, expected {len(expected)}"]
    pairs = zip(encoded(got), encoded(expected), strict=True)
    return [f"row {row}: {a!r}, expected {b!r}" for row, (a, b) in enumerate(pairs)
            if a != b and not _close(a, b)]  # fmt: skip


def _close(a: Any, b: Any) -> bool:
    both = isinstance(a, float) and isinstance(b, float)
    return both and isclose(a, b, rel_tol=RELATIVE)
