"""Where frames begin: tables of this process, datasets, Flight streams. `files.py` has files.

One job: a scan node with its schema, known at once; and the dates and times of `date_range`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from fabric.clients.dataframe.arguments import roots_of
from fabric.clients.dataframe.durations import days_and_rest, parse_duration
from fabric.clients.dataframe.expressions.types import TableLike
from fabric.clients.dataframe.frame import DataFrame
from fabric.clients.dataframe.memory import memory_scan
from fabric.clients.dataframe.names import choice
from fabric.clients.dataframe.session import Session, default_session
from fabric.errors import PlanError
from fabric.plan import nodes, sources
from fabric.plan.durations import UNITS_MONTHS, UNITS_US

if TYPE_CHECKING:
    import pandas
    import polars


def read_arrow(data: TableLike, *, session: Session | None = None) -> DataFrame:
    """Rows that are here already: a dict of lists, a list of dicts, or anything that speaks Arrow.

    That is a pyarrow, Polars (a LazyFrame is collected now) or pandas table, a DuckDB relation, or
    whatever else has ``__arrow_c_stream__``.

    >>> import pyarrow as pa
    >>> from fabric import read_arrow
    >>> read_arrow(pa.table({"a": [1, 2]})).columns
    ['a']
    """
    return DataFrame.of(memory_scan(data), session=session)


def read_flight(
    uri: str, *path: str, command: bytes | str = b"", token: str = "",
    tls_roots: str | Path | None = None, insecure: bool = False,
    session: Session | None = None,
) -> DataFrame:  # fmt: skip
    """Rows of any Arrow Flight server: ``read_flight("grpc+tcp://host:port", "dataset", "x")``.

    With ``grpc+tls://``, `tls_roots` is the file of the certificates (PEM) that may have signed the
    server's. A `token` goes in the clear to this machine alone, unless `insecure` says otherwise.

    Raises
    ------
    PlanError
        Neither a path nor a command was given, or both were.
    PeerLostError
        Nobody answers at `uri`, which is asked for the columns at once.

    Examples
    --------
    >>> import fabric
    >>> with fabric.connect(serve=True) as session:
    ...     _ = session.read_arrow({"a": [1, 2]}).write_dataset("small")
    ...     url, token = session.flight_url, session.token
    ...     fabric.read_flight(url, "dataset", "small", token=token).to_dicts()
    [{'a': 1}, {'a': 2}]
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


def read_dataset(name: str, *, session: Session | None = None) -> DataFrame:
    """Rows of a dataset of the fabric that `session` (or the newest one) is connected to.

    `NotFoundError` where there is none of that `name`.

    >>> import fabric
    >>> with fabric.connect() as session:
    ...     _ = session.read_arrow({"a": [1, 2]}).write_dataset("small")
    ...     fabric.read_dataset("small", session=session).to_dicts()
    [{'a': 1}, {'a': 2}]
    """
    chosen = session or default_session()
    schema = chosen.dataset_schema(name)
    return DataFrame.of(nodes.Scan(sources.DatasetSource(name), schema), session=chosen)


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
    dates = pa.table({name: times_between(start, end, every, closed)})
    return DataFrame.of(memory_scan(dates), session=session)


def _scan(source: sources.Source, session: Session | None) -> DataFrame:
    from fabric.io.sources import source_schema  # for start-up time: it brings Flight and files

    return DataFrame.of(nodes.Scan(source, source_schema(source)), session=session)


def from_pandas(frame: pandas.DataFrame, *, session: Session | None = None) -> DataFrame:
    """Rows of a pandas DataFrame, without its index; NaN in it is null.

    >>> import pandas as pd
    >>> from fabric import from_pandas
    >>> from_pandas(pd.DataFrame({"a": [1.5, float("nan")]})).to_dicts()
    [{'a': 1.5}, {'a': None}]
    """
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return DataFrame.of(memory_scan(table), session=session)


def from_arrow(data: TableLike, *, session: Session | None = None) -> DataFrame:
    """Rows of a pyarrow table, or of whatever `read_arrow` takes: the same under Polars' name."""
    return DataFrame.of(memory_scan(data), session=session)


def from_dict(data: Mapping[str, Iterable[Any]], *, session: Session | None = None) -> DataFrame:
    """Rows of a dict of lists, a column each; see `read_arrow`.

    `DataError` where the lists differ in length.

    >>> from fabric import from_dict
    >>> from_dict({"a": [1, 2], "b": ["x", None]}).to_dicts()
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': None}]
    """
    return DataFrame.of(memory_scan(data), session=session)


def from_dicts(data: Sequence[Mapping[str, Any]], *, session: Session | None = None) -> DataFrame:
    """Rows of a list of dicts, which need not have the same keys; see `read_arrow`.

    >>> from fabric import from_dicts
    >>> from_dicts([{"a": 1}, {"a": 2, "b": "x"}]).to_dicts()
    [{'a': 1, 'b': None}, {'a': 2, 'b': 'x'}]
    """
    return DataFrame.of(memory_scan(data), session=session)


def from_polars(
    data: polars.DataFrame | polars.LazyFrame, *, session: Session | None = None
) -> DataFrame:
    """Rows of a Polars DataFrame, or of a LazyFrame, which is collected now.

    >>> import polars as pl
    >>> from fabric import from_polars
    >>> from_polars(pl.DataFrame({"a": [1, None]})).to_dicts()
    [{'a': 1}, {'a': None}]
    """
    return DataFrame.of(memory_scan(data), session=session)


_ROWS_MAX = 100_000_000


def times_between(start: date, end: date, every: str | timedelta, closed: str) -> pa.Array:
    """The times from `start` to `end`, `closed` says which of both are among them."""
    choice(closed, ("both", "left", "right", "none"), "date_range", "closed")
    kinds = {isinstance(value, datetime) for value in (start, end)}
    if not isinstance(start, date) or not isinstance(end, date) or len(kinds) != 1:
        raise PlanError(f"date_range takes two dates or two datetimes, got {start!r} and {end!r}")
    if _is_naive(start) != _is_naive(end):
        raise PlanError(
            f"date_range takes two times with a zone or two without, got {start!r} and {end!r}"
        )
    number, unit = parse_duration(every)
    if number <= 0:
        raise PlanError(f"date_range needs a distance above 0, got {every!r}")
    dtype = pa.scalar(start).type
    if unit in UNITS_MONTHS:
        found = _by_months(start, end, number * UNITS_MONTHS[unit], dtype)
    elif not _is_naive(start) and (step := days_and_rest(every)) is not None and step[0]:
        found = _by_clocks(start, end, *step, dtype)
    else:
        found = _by_length(start, end, number * UNITS_US[unit], dtype)
    if closed in ("right", "none"):
        found = found.filter(pc.not_equal(found, pa.scalar(start, found.type)))
    if closed in ("left", "none"):
        found = found.filter(pc.not_equal(found, pa.scalar(end, found.type)))
    return found


def _is_naive(value: date) -> bool:
    return not isinstance(value, datetime) or value.tzinfo is None


def _by_clocks(start: date, end: date, days: int, rest_us: int, dtype: pa.DataType) -> pa.Array:
    """Days as clocks of the zone of `start` show them, which are not always as long."""
    assert isinstance(start, datetime)
    assert isinstance(end, datetime)
    last, found = end.astimezone(UTC), []
    for i in range(_ROWS_MAX):
        try:
            value = (start + timedelta(days * i)).astimezone(UTC)
            value += timedelta(microseconds=rest_us * i)
        except OverflowError:  # after the year 9999
            break
        if value > last:
            break
        found.append(value)
    return pa.array(found, dtype)


def _by_length(start: date, end: date, length_us: int, dtype: pa.DataType) -> pa.Array:
    stamp = dtype if pa.types.is_timestamp(dtype) else pa.timestamp("us")
    first, last = (pa.scalar(value).cast(stamp).cast(pa.int64()).as_py() for value in (start, end))
    if (last - first) // length_us >= _ROWS_MAX:
        raise PlanError(f"date_range would make more than {_ROWS_MAX:,} rows; take a longer every")
    found = pa.array(range(first, last + 1, length_us), pa.int64()).cast(stamp)
    return found.cast(dtype) if length_us % UNITS_US["day"] == 0 else found


def _by_months(start: date, end: date, months: int, dtype: pa.DataType) -> pa.Array:
    found: list[date] = []
    while (value := _months_later(start, months * len(found))) is not None and value <= end:
        found.append(value)
    return pa.array(found, dtype)


def _months_later(value: date, months: int) -> date | None:
    """So much later, its day cut to the length of the month; None after the year 9999."""
    year, month = divmod(value.year * 12 + value.month - 1 + months, 12)
    if year > date.max.year:
        return None
    following = date(year + month // 11, (month + 1) % 12 + 1, 1) if year < 9999 else None
    last = 31 if following is None else (following - timedelta(days=1)).day
    return value.replace(year=year, month=month + 1, day=min(value.day, last))
