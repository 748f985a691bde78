"""Where frames begin: tables of this process, datasets, Flight streams. `read_files` has files.

One job: a scan node with its schema, known at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from fabric.clients.dataframe.frame import DataFrame
from fabric.clients.dataframe.options import roots_of
from fabric.clients.dataframe.ranges import times_between
from fabric.clients.dataframe.session import Session, default_session
from fabric.clients.dataframe.tables import memory_scan
from fabric.clients.dataframe.types import TableLike
from fabric.errors import PlanError
from fabric.plan import nodes, sources

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


def read_dataset(name: str, *, session: Session | None = None) -> DataFrame:
    """Rows of a dataset of the fabric that `session` (or the newest one) is connected to."""
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
    return _frame(memory_scan(pa.table({name: times_between(start, end, every, closed)})), session)


def _scan(source: sources.Source, session: Session | None) -> DataFrame:
    from fabric.io.sources import source_schema  # for start-up time: it brings Flight and files

    return _frame(nodes.Scan(source, source_schema(source)), session)


def _frame(node: nodes.Scan, session: Session | None) -> DataFrame:
    return DataFrame.of(node, None, session)


def from_pandas(frame: pandas.DataFrame, *, session: Session | None = None) -> DataFrame:
    """Rows of a pandas DataFrame, without its index."""
    return _frame(memory_scan(pa.Table.from_pandas(frame, preserve_index=False)), session)


def from_arrow(data: TableLike, *, session: Session | None = None) -> DataFrame:
    """Rows of a pyarrow table, or of whatever `read_arrow` takes."""
    return _frame(memory_scan(data), session)


def from_dict(data: Mapping[str, Iterable[Any]], *, session: Session | None = None) -> DataFrame:
    """Rows of a dict of lists, a column each; see `read_arrow`."""
    return _frame(memory_scan(data), session)


def from_dicts(data: Sequence[Mapping[str, Any]], *, session: Session | None = None) -> DataFrame:
    """Rows of a list of dicts, which need not have the same keys; see `read_arrow`."""
    return _frame(memory_scan(data), session)


def from_polars(
    data: polars.DataFrame | polars.LazyFrame, *, session: Session | None = None
) -> DataFrame:
    """Rows of a Polars DataFrame, or of a LazyFrame, which is collected now."""
    return _frame(memory_scan(data), session)
