"""Where frames begin: tables of this process, datasets, Flight streams. `read_files` has files.

One job: a scan node with its schema, known at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from fabric.clients.dataframe.names import value_text
from fabric.config import TLS
from fabric.errors import ConfigError, DataError, PlanError
from fabric.plan import nodes, sources
from fabric.plan.faults import with_article
from fabric.security.tls import check_clear, read_pem

if TYPE_CHECKING:
    from fabric.clients.dataframe.frame import DataFrame
    from fabric.clients.session.session import Session


def read_arrow(data: Any, *, session: Session | None = None) -> DataFrame:
    """Rows that are here already: a dict of lists, a list of dicts, or anything that speaks Arrow.

    That is a pyarrow, Polars (a LazyFrame is collected now) or pandas table, a DuckDB relation, or
    whatever else has ``__arrow_c_stream__``.

    >>> import pyarrow as pa
    >>> from fabric import read_arrow
    >>> read_arrow(pa.table({"a": [1, 2]})).columns
    ['a']
    """
    return _frame(memory_scan(data), session)


def read_flight(
    uri: str, *path: str, command: bytes | str = b"", token: str = "",
    tls_roots: str | Path | None = None, insecure: bool = False,
    session: Session | None = None,
) -> DataFrame:  # fmt: skip
    """Rows of any Arrow Flight server: ``read_flight("grpc+tcp://host:port", "dataset", "x")``.

    With ``grpc+tls://``, `tls_roots` is the file of the certificates (PEM) that may have signed the
    server's. A `token` goes in the clear to this machine alone, unless `insecure` says otherwise.
    """
    if bool(path) == bool(command):
        raise PlanError(
            'read_flight needs a path or a command: read_flight(uri, "dataset", "name")'
        )
    wanted = command.encode() if isinstance(command, str) else command
    source = sources.FlightSource(
        uri, tuple(path), wanted, token, roots_of(uri, tls_roots, token, insecure), insecure
    )
    return _scan(source, session)


def roots_of(uri: str, path: str | Path | None, token: str, insecure: bool) -> bytes:
    """What the file of roots holds; a token that would go in the clear is refused here already."""
    if token:
        check_clear(uri, insecure)
    if path is None:
        return b""
    if not uri.startswith(TLS):
        raise ConfigError(f"tls_roots is for addresses with TLS ({TLS}host:port), got {uri!r}")
    return read_pem(Path(path))


def read_dataset(name: str, *, session: Session | None = None) -> DataFrame:
    """Rows of a dataset of the fabric that `session` (or the newest one) is connected to."""
    from fabric.clients.session.default import default_session

    chosen = session or default_session()
    schema = chosen.dataset_schema(name)
    return _frame(nodes.Scan(sources.DatasetSource(name), schema), chosen)


def date_range(
    start: date, end: date, every: str | timedelta = "1d", *, name: str = "date",
    closed: Literal["both", "left", "right", "none"] = "both", session: Session | None = None,
) -> DataFrame:  # fmt: skip
    """A row for each date, or each time, from `start` to `end` so often: one column, `name`.

    Of two dates it is dates (timestamps where `every` is not a whole number of days), of datetimes
    timestamps in microseconds. Months and years keep the day, cut to the length of the month.

    >>> from datetime import date
    >>> from fabric import date_range
    >>> date_range(date(2024, 1, 31), date(2024, 4, 1), "1mo").collect()["date"].to_pylist()
    [datetime.date(2024, 1, 31), datetime.date(2024, 2, 29), datetime.date(2024, 3, 31)]
    """
    from fabric.clients.dataframe.ranges import times_between

    return _frame(memory_scan(pa.table({name: times_between(start, end, every, closed)})), session)


def memory_scan(data: Any) -> nodes.Scan:
    """A scan of a table in this process."""
    from fabric.io.memory import register

    table = to_table(data)
    return nodes.Scan(register(table), table.schema)


def to_table(data: Any) -> pa.Table:
    """`data` as an Arrow table, without a copy where it speaks Arrow."""
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


def _scan(source: sources.Source, session: Session | None) -> DataFrame:
    from fabric.io.registry import source_schema

    return _frame(nodes.Scan(source, source_schema(source)), session)


def _frame(node: nodes.Scan, session: Session | None) -> DataFrame:
    from fabric.clients.dataframe.frame import DataFrame

    return DataFrame.of(node, None, session)


def from_pandas(frame: Any, *, session: Session | None = None) -> DataFrame:
    """Rows of a pandas DataFrame, without its index."""
    return _frame(memory_scan(pa.Table.from_pandas(frame, preserve_index=False)), session)


def from_arrow(data: Any, *, session: Session | None = None) -> DataFrame:
    """Rows of a pyarrow table, or of whatever `read_arrow` takes."""
    return _frame(memory_scan(data), session)


def from_dict(data: Any, *, session: Session | None = None) -> DataFrame:
    """Rows of a dict of lists, a column each; see `read_arrow`."""
    return _frame(memory_scan(data), session)


def from_dicts(data: Any, *, session: Session | None = None) -> DataFrame:
    """Rows of a list of dicts, which need not have the same keys; see `read_arrow`."""
    return _frame(memory_scan(data), session)


def from_polars(data: Any, *, session: Session | None = None) -> DataFrame:
    """Rows of a Polars DataFrame, or of a LazyFrame, which is collected now."""
    return _frame(memory_scan(data), session)
