"""Data of this process as Arrow tables: dicts of lists, lists of dicts, whatever speaks Arrow.

One job: `to_table`, and `memory_scan` over what it gives. A value that does not fit its column is
named by its column and row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from fabric.clients.dataframe.expressions.types import TableLike
from fabric.clients.dataframe.names import value_text
from fabric.errors import DataError, PlanError
from fabric.io.sources.memory import register
from fabric.plan import nodes
from fabric.plan.faults import with_article


def memory_scan(data: TableLike) -> nodes.Scan:
    """A scan of a table in this process."""
    table = to_table(data)
    return nodes.Scan(register(table), table.schema)


def to_table(data: TableLike) -> pa.Table:
    """`data` as an Arrow table, without a copy where it speaks Arrow."""
    return _table(data)


def _table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    try:
        if isinstance(data, Mapping):
            return _from_columns(data)
        if isinstance(data, list | tuple):
            return _from_rows(data)
        if _is_lazy_polars(data):
            data = data.collect()
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data).read_all()
        if hasattr(data, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(data)])
    except OverflowError as error:
        raise _too_large(data) from error
    except (pa.ArrowException, TypeError) as error:
        raise DataError(
            f"can't read {with_article(type(data).__name__)} as a table: {error}{_one_column(data)}"
        ) from error
    raise PlanError(
        f"can't read {with_article(type(data).__name__)} as a table; give a dict of lists, a list "
        "of dicts, a pyarrow, Polars or pandas table, or whatever has __arrow_c_stream__"
    )


def _one_column(data: Any) -> str:
    """What to write for data that are one column."""
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return '; it is one column; write: fabric.from_dict({"a": values})'
    if hasattr(data, "to_frame"):
        return "; it is one column; write: fabric.DataFrame(series.to_frame())"
    return ""


def _too_large(data: Any) -> DataError:
    """The integer in dicts of lists, or lists of dicts, that Arrow has no type for."""
    columns = (
        data.items() if isinstance(data, Mapping) else (i for row in data for i in row.items())
    )
    found = next(((n, big) for n, values in columns for big in _large_in(values)), None)
    if found is None:
        return DataError("a value does not fit its column's type; give pa.array(values, type)")
    name, value = found
    way = (
        f'pa.array(values, pa.uint64()) for column "{name}"'
        if 0 < value < 1 << 64
        else "decimal.Decimal(value), float(value) or str(value)"
    )
    return DataError(
        f"column {name!r} has the integer {value}, which does not fit int64; give {way}"
    )


def _large_in(values: Any) -> Iterator[int]:
    """Integers that do not fit int64, at any depth."""
    if isinstance(values, int):
        if not -(1 << 63) <= values < 1 << 63:
            yield values
    elif isinstance(values, Mapping):
        yield from _large_in(values.values())
    elif isinstance(values, Iterable) and not isinstance(values, str | bytes):
        for value in values:
            yield from _large_in(value)


def _is_lazy_polars(data: Any) -> bool:
    return type(data).__name__ == "LazyFrame" and type(data).__module__.startswith("polars")


def _from_rows(rows: list[Any] | tuple[Any, ...]) -> pa.Table:
    if all(isinstance(row, pa.RecordBatch) for row in rows) and rows:
        return pa.Table.from_batches(rows)
    if not all(isinstance(row, Mapping) for row in rows):
        raise PlanError("a list must hold one dict a row, or record batches")
    names = dict.fromkeys(name for row in rows for name in row)
    for name in names:
        if not isinstance(name, str):
            raise PlanError(f"a column's name is text, got {name!r} as the key of a row")
    return _from_columns({name: [row.get(name) for row in rows] for name in names})


def _from_columns(columns: Mapping[str, Any]) -> pa.Table:
    """A table of columns that are as long as each other."""
    made = {}
    for name, values in columns.items():
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise DataError(
                f"column {name!r} has {str(values)[:80]!r}, not its values in a list; write: "
                f"fabric.from_dict({{{value_text(name)}: [{value_text(values)[:80]}]}})"
            )
        made[name] = _column(name, values if hasattr(values, "__len__") else list(values))
    for name, values in made.items():
        first = next(iter(made))
        if len(values) != len(made[first]):
            raise DataError(
                f"column {name!r} has {len(values):,} values, and column {first!r} has "
                f"{len(made[first]):,}; give each column as many"
            )
    return pa.table(made)


def _column(name: str, values: Any) -> Any:
    """The values as Arrow has them; those that know their type stay as they are."""
    if not isinstance(values, list | tuple):
        return values
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        row = bisect_left(range(len(values)), True, key=lambda at: not _are_alike(values[: at + 1]))
        if row in (0, len(values)):
            raise
        raise DataError(
            f"column {name!r} has {str(values[row])[:80]!r} in row {row}, counted from 0: it is "
            f"{with_article(type(values[row]).__name__)}, and the rows before are "
            f"{pa.array(values[:row]).type}; give all rows one type, for example str(value)"
        ) from error


def _are_alike(values: Sequence[Any]) -> bool:
    """Whether a column can have all of them."""
    try:
        pa.array(values)
    except pa.ArrowException:
        return False
    return True
