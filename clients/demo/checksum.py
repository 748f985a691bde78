"""Comparing tables of different engines: a checksum, rows as a sorted list, and what was compared.

One job: tell whether two tables hold the same rows, whatever their order, chunks, integer widths,
string layouts or time units. Floats count to 9 significant digits and -0.0 is 0; decimals count by
value; names of columns do not count, their order does. The hashing is numpy's alone, so that it
can judge our own kernels. About 30 ns a value, 15 ns a byte of text. `Agreement` holds every answer
of the demo against DuckDB's: a difference is said at once and makes the whole command fail.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from rich.console import Console


class Agreement:
    """DuckDB's answers by name, and whether all that was checked agrees with them."""

    def __init__(self, console: Console, expected: Mapping[str, pa.Table]) -> None:
        self._console = console
        self._expected = {name: checksum(table) for name, table in expected.items()}
        self._differences: list[str] = []
        self._checked = 0

    @property
    def holds(self) -> bool:
        """Something was checked, and all of it agreed."""
        return self._checked > 0 and not self._differences

    def expect(self, name: str, table: pa.Table) -> None:
        """One more answer of DuckDB's."""
        self._expected[name] = checksum(table)

    def check(self, what: str, name: str, table: pa.Table) -> None:
        """Compare one answer; the order of rows and the widths of types do not count."""
        rows, digits = checksum(table)
        self._checked += 1
        if (rows, digits) == self._expected[name]:
            self._console.print(f"  agrees with DuckDB: {rows:,} rows, checksum {digits} ({what})")
        else:
            expected_rows, expected_digits = self._expected[name]
            self.differ(
                f"{what}: {rows:,} rows, checksum {digits}; "
                f"DuckDB has {expected_rows:,} rows, checksum {expected_digits}"
            )

    def differ(self, what: str) -> None:
        """Remember and say a difference."""
        self._differences.append(what)
        self._console.print(f"  [bold red]DIFFERS[/bold red] {what}")

    def summary(self) -> None:
        """The last word."""
        if self.holds:
            rows = sum(rows for rows, _ in self._expected.values())
            digits = sum(int(d, 16) for _, d in self._expected.values()) % (1 << 64)
            self._console.print(
                f"\n[green]agrees with DuckDB: {rows:,} rows, checksum {digits:016x}[/green] "
                f"({self._checked} comparisons)"
            )
        else:
            self._console.print(f"\n[bold red]{len(self._differences)} answers differ[/bold red]")


Hashes = NDArray[np.uint64]

_ROWS = 1 << 17
_BYTES = 1 << 22
_NULL = np.uint64(0x9AE16A3B2F90404F)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_PRIME = 0x100000001B3  # odd, so it has an inverse modulo 2^64
_INVERSE = pow(_PRIME, -1, 1 << 64)
_BYTE_HASHES = np.random.default_rng(seed=1).integers(0, 1 << 64, 256, dtype=np.uint64)
_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def checksum(table: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]) -> tuple[int, str]:
    """Number of rows and 16 hex digits, independent of the order of rows.

    Examples
    --------
    >>> a = pa.table({"x": [1, 2], "y": ["a", None]})
    >>> b = a.take([1, 0]).cast(pa.schema([("x", pa.int16()), ("y", pa.large_string())]))
    >>> checksum(a) == checksum(b)
    True
    """
    n_rows, total = 0, 0
    for batch in _batches(table):
        n_rows += batch.num_rows
        total += int(_row_hashes(batch).sum(dtype=np.uint64))
    return n_rows, f"{total % (1 << 64):016x}"


def rows(table: pa.Table | pa.RecordBatch) -> list[tuple[Any, ...]]:
    """All rows as tuples of plain values, sorted: equal for tables of equal rows.

    >>> rows(pa.table({"x": [2, None, 1]}))
    [(None,), (1,), (2,)]
    """
    columns = [[_plain(value) for value in column.to_pylist()] for column in table.columns]
    found = list(zip(*columns, strict=True)) if columns else []
    return sorted(found, key=lambda row: [(v is not None, str(type(v)), repr(v)) for v in row])


def _plain(value: Any) -> Any:
    match value:
        case float():
            return "NaN" if math.isnan(value) else float(f"{value:.9g}") + 0.0
        case Decimal():
            return f"{value.normalize():f}"
        case datetime.datetime() if value.tzinfo is not None:
            return value.astimezone(datetime.UTC).replace(tzinfo=None)
        case list():
            return tuple(_plain(v) for v in value)
        case dict():
            return tuple(_plain(v) for v in value.values())
        case _:
            return value


def _batches(table: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(table, pa.Table):
        table = table.to_batches()
    elif isinstance(table, pa.RecordBatch):
        table = [table]
    for batch in table:
        for start in range(0, batch.num_rows, _ROWS):
            yield batch.slice(start, _ROWS)


def _row_hashes(batch: pa.RecordBatch) -> Hashes:
    found = np.full(batch.num_rows, _STEP)
    for column in batch.columns:
        found = _mix(found * _STEP + _hashes(column))
    return found


def _mix(x: Hashes) -> Hashes:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _hashes(column: pa.Array) -> Hashes:
    """One hash per value; every null has the same."""
    column = _simple(column)
    if pa.types.is_null(column.type):
        return np.full(len(column), _NULL)
    found = _kind(column.type)(column)
    if column.null_count:
        found = np.where(column.is_null().to_numpy(zero_copy_only=False), _NULL, found)
    return found


def _simple(column: pa.Array) -> pa.Array:
    """The values without their encoding."""
    while True:
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.storage
        elif pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        elif pa.types.is_run_end_encoded(column.type):
            column = pc.run_end_decode(column)
        else:
            return column


def _kind(dtype: pa.DataType) -> Callable[[pa.Array], Hashes]:
    kinds: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], Hashes]], ...] = (
        (pa.types.is_boolean, _integers),
        (pa.types.is_integer, _integers),
        (pa.types.is_floating, _floats),
        (pa.types.is_decimal, _decimals),
        (pa.types.is_temporal, _times),
        (_is_bytes, _texts),
        (pa.types.is_struct, _structs),
        (_is_list, _lists),
    )
    for fits, hashes in kinds:
        if fits(dtype):
            return hashes
    raise TypeError(f"no checksum is defined for values of type {dtype}")


def _integers(column: pa.Array) -> Hashes:
    wide = pa.uint64() if column.type == pa.uint64() else pa.int64()
    return _mix(_values(column.cast(wide)).view(np.uint64))


def _values(column: pa.Array) -> NDArray[Any]:
    """The values of a numeric array; anything in place of nulls."""
    if column.null_count:
        column = column.fill_null(0)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _floats(column: pa.Array) -> Hashes:
    values = _values(column.cast(pa.float64()))
    odd = ~np.isfinite(values)
    x = np.where(odd, 0.0, values)
    size = np.abs(x)
    exponent = np.floor(np.log10(size, out=np.zeros_like(size), where=size > 0)).astype(np.int64)
    digits = _scaled(x, exponent)
    exponent += (np.abs(digits) >= 1e9).astype(np.int64)  # rounded up, or log10 was a little low
    exponent -= ((np.abs(digits) < 1e8) & (digits != 0)).astype(np.int64)
    mantissa: Hashes = _scaled(x, exponent).astype(np.int64).view(np.uint64)
    found = _mix(mantissa * _STEP + exponent.view(np.uint64))
    special: NDArray[np.float64] = np.nan_to_num(values[odd], nan=0.5, posinf=2, neginf=-2)
    found[odd] = _mix(special.view(np.uint64))
    return found


def _scaled(x: NDArray[np.float64], exponent: NDArray[np.int64]) -> NDArray[np.float64]:
    """`x` as an integer of 9 digits, given its power of ten; in two steps, to stay in range."""
    shift = 8 - exponent
    half = shift // 2
    scaled: NDArray[np.float64] = x * np.power(10.0, half) * np.power(10.0, shift - half)
    return np.rint(scaled)


def _decimals(column: pa.Array) -> Hashes:
    same = column.cast(pa.decimal256(76, 38))
    words = np.frombuffer(same.buffers()[1], np.uint64, len(same) * 4, same.offset * 32)
    found = np.zeros(len(same), np.uint64)
    for word in words.reshape(-1, 4).T:
        found = _mix(found * _STEP + word)
    return found


def _times(column: pa.Array) -> Hashes:
    """Timestamps, times and durations in microseconds, dates in days; zones do not count."""
    dtype = column.type
    if pa.types.is_date(dtype):
        return _integers(column.cast(pa.date32()).cast(pa.int32()))
    if not hasattr(dtype, "unit"):
        return _texts(column.cast(pa.string()))
    wide = column.cast(pa.int32()) if dtype.bit_width == 32 else column
    values = _values(wide.cast(pa.int64()))
    micros = values // 1000 if dtype.unit == "ns" else values * _MICROS[dtype.unit]
    return _mix(micros.view(np.uint64))


def _is_bytes(dtype: pa.DataType) -> bool:
    tests = (
        pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view,
        pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view,
        pa.types.is_fixed_size_binary,
    )  # fmt: skip
    return any(test(dtype) for test in tests)


def _is_list(dtype: pa.DataType) -> bool:
    tests = (
        pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_map,
        pa.types.is_list_view, pa.types.is_large_list_view,
    )  # fmt: skip
    return any(test(dtype) for test in tests)


def _texts(column: pa.Array) -> Hashes:
    if not pa.types.is_large_binary(column.type):
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        column = column.cast(pa.binary()).cast(pa.large_binary())
    offsets = np.frombuffer(column.buffers()[1], np.int64)[column.offset :][: len(column) + 1]
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    return _sequences(offsets, lambda begin, end: _BYTE_HASHES[data[begin:end]])


def _lists(column: pa.Array) -> Hashes:
    if pa.types.is_map(column.type):
        column = column.cast(pa.list_(pa.struct([column.type.key_field, column.type.item_field])))
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    items = _hashes(pc.list_flatten(column))
    return _sequences(offsets, lambda begin, end: items[begin:end])


def _sequences(offsets: NDArray[np.int64], items: Callable[[int, int], Hashes]) -> Hashes:
    """Hash runs of items: polynomials modulo 2^64, by differences of running sums."""
    found = np.zeros(len(offsets) - 1, np.uint64)
    first = 0
    while first < len(found):
        last = int(np.searchsorted(offsets, offsets[first] + _BYTES, side="right")) - 1
        last = min(max(last, first + 1), len(found))
        bounds = offsets[first : last + 1]
        begin, end = int(bounds[0]), int(bounds[-1])
        powers = _powers(_PRIME, end - begin)
        sums = np.concatenate(
            (np.zeros(1, np.uint64), np.cumsum(items(begin, end) * powers[:-1], dtype=np.uint64))
        )
        starts = bounds[:-1] - begin
        run = sums[bounds[1:] - begin] - sums[starts]
        lengths = np.diff(bounds).astype(np.uint64)
        found[first:last] = _mix(run * _powers(_INVERSE, end - begin)[starts] + lengths)
        first = last
    return found


def _powers(base: int, n: int) -> Hashes:
    """``base ** 0 .. base ** n`` modulo 2^64."""
    factors = np.full(n + 1, base, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)


def _structs(column: pa.Array) -> Hashes:
    found = np.full(len(column), _STEP)
    for field in column.flatten():
        found = _mix(found * _STEP + _hashes(field))
    return found
