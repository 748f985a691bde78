"""Frames of files: Parquet, CSV, JSON, Arrow IPC.

One job: a scan node from paths and options. Which files there are, and their columns, is known at
once (footers and heads are read, rows are not).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from fabric.clients.dataframe.arguments import FileOption, StorageOptions, file_options
from fabric.clients.dataframe.expressions.literal import DTypeLike, SchemaLike, to_dtype
from fabric.clients.dataframe.frame import DataFrame
from fabric.clients.dataframe.names import choice, known_names, value_text
from fabric.clients.dataframe.session import Session
from fabric.errors import PlanError
from fabric.plan import nodes, places, sources
from fabric.plan.zones import check_zones

Paths: TypeAlias = str | Path | Iterable[str | Path]
Hive: TypeAlias = bool | Mapping[str, DTypeLike] | None
"""Whether folders ``column=value`` are columns, or the types of some."""
Names: TypeAlias = str | Iterable[str] | None


def read_parquet(
    paths: Paths,
    *,
    columns: Names = None,
    schema: sources.Schemas = "strict",
    hive: Hive = None,
    storage_options: StorageOptions = None,
    session: Session | None = None,
    **options: FileOption,
) -> DataFrame:
    """Rows of Parquet files: one path, several, a folder, or a pattern ``data/**/*.parquet``.

    Folders are read down to the last one. A name that begins with a dot or underscore is passed
    over there.

    Paths may be URLs of object stores, ``s3://bucket/sales``, ``gs://…`` and ``az://…``, with the
    credentials of the usual variables or of `storage_options`: see ``docs/object_stores.md``.

    Parameters
    ----------
    columns
        Those to read; by default all.
    schema
        ``strict`` wants the same columns in all files. With ``union`` a column that a file lacks is
        null in its rows, and numbers have the widest type of all files.
    hive
        Folders named ``column=value`` become columns: by default those below a folder or pattern
        that is read, with True also those of a single file's path, with False none. A dict gives
        types, as in ``hive={"month": "string"}``; others are int64, double, date, timestamp or
        string, whichever holds all values first. Filters on them leave whole files out.
    storage_options
        Of the store of these URLs, before those of the environment: ``endpoint``, ``region``,
        ``access_key_id``, ``secret_access_key``, ``session_token``, ``anonymous``, ``account_name``
        and others, by the names of obstore, pandas or Polars. Secret ones are never shown.

    Raises
    ------
    NotFoundError
        There is no such file.
    DataError
        A file is damaged, or differs from the first; a folder's value does not fit its type.

    Examples
    --------
    >>> import fabric, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> sales = fabric.DataFrame({"year": [2023, 2024], "amount": [1.5, 2.5]})
    >>> _ = sales.write_parquet(folder + "/sales", partition_by="year")
    >>> read_parquet(folder + "/sales").filter(fabric.col("year") == 2024).to_dicts()
    [{'amount': 2.5, 'year': 2024}]
    """
    return _files("parquet", paths, (columns, schema, hive, storage_options), options, session)


def read_csv(
    paths: Paths,
    *,
    columns: Names = None,
    schema: sources.Schemas | SchemaLike = "strict",
    hive: Hive = None,
    storage_options: StorageOptions = None,
    session: Session | None = None,
    **options: FileOption,
) -> DataFrame:
    """Rows of CSV files; types are found from the values.

    An empty field is null; a quoted empty one is the text "", as in Polars, and
    as Spark and DuckDB write them. A blank line is a row of nulls (but for those before the
    header), as in Polars; pandas and Spark leave it out, DuckDB where there are several columns.
    Integers beyond int64 are uint64, decimal(38,0) or text, whichever holds them all.

    Parameters
    ----------
    columns, hive, storage_options
        As in `read_parquet`.
    schema
        All columns to read and their types: then nothing is guessed. Or ``strict`` or ``union``, as
        in `read_parquet`.
    options
        ``delimiter`` (also ``sep``, ``separator``), ``header`` (``has_header``), ``names``,
        ``types`` of some columns (``dtypes``), ``null_values`` besides the empty field (in quotes,
        too), ``skip_rows``, ``n_rows``, ``comment``, ``ragged`` ("error", "fill", "skip"),
        ``quote``, ``escape``, ``decimal``, ``date_format``, ``encoding``, ``sample_bytes``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "prices.csv")
    >>> _ = file.write_text("# of May\\nname;price\\nx;1,50\\ny;NA\\n")
    >>> prices = read_csv(file, sep=";", comment="#", decimal=",", null_values="NA")
    >>> prices.to_dicts()
    [{'name': 'x', 'price': 1.5}, {'name': 'y', 'price': None}]
    """
    return _files("csv", paths, (columns, schema, hive, storage_options), options, session)


def read_json(
    paths: Paths,
    *,
    columns: Names = None,
    schema: sources.Schemas | SchemaLike = "union",
    hive: Hive = None,
    storage_options: StorageOptions = None,
    session: Session | None = None,
    **options: FileOption,
) -> DataFrame:
    """Rows of JSON files: an object a line (NDJSON), or one array of objects.

    A key that an object lacks is null. A key that is there twice, or a value that does not fit its
    column's type, is an error that names the line. In a column that is given as text
    (``types={"a": "string"}``) other values are text as they are written.

    Texts that are all ISO 8601 are timestamps, of seconds ("2024-01-01", "2024-01-01T10:00:00"), or
    of micro- or nanoseconds where one has a fraction; all with a zone ("Z", "+02:00") are instants
    in UTC, and some with and some without one stay text. Integers beyond int64 are uint64 or
    decimal(38,0), whichever holds them all.

    Parameters
    ----------
    columns, hive, storage_options
        As in `read_parquet`.
    schema
        All columns to read and their types: other keys are left out. Or ``strict`` or ``union``, as
        in `read_parquet`.
    options
        ``types`` of some columns; ``sample_bytes``: how much of each file is looked at for keys and
        types (8 MiB). A key that comes first behind that is an error.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "rows.json")
    >>> _ = file.write_text('[{"a": 1}, {"a": 2, "b": ["x"]}]')
    >>> read_json(file).to_dicts()
    [{'a': 1, 'b': None}, {'a': 2, 'b': ['x']}]
    """
    return _files("json", paths, (columns, schema, hive, storage_options), options, session)


def read_ipc(
    paths: Paths,
    *,
    columns: Names = None,
    schema: sources.Schemas = "strict",
    hive: Hive = None,
    storage_options: StorageOptions = None,
    session: Session | None = None,
    **options: FileOption,
) -> DataFrame:
    """Rows of Arrow IPC files (also called Feather); arguments as in `read_parquet`.

    >>> import fabric, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = fabric.DataFrame({"a": [1, 2]}).write_ipc(folder + "/rows")
    ...     fabric.read_ipc(folder + "/rows").to_dicts()
    [{'a': 1}, {'a': 2}]
    """
    return _files("ipc", paths, (columns, schema, hive, storage_options), options, session)


def _files(
    format: places.FileFormat,
    paths: Paths,
    shape: tuple[Names, Any, Hive, StorageOptions],
    options: dict[str, Any],
    session: Session | None,
) -> DataFrame:
    # for start-up time: what reads files brings the formats' libraries
    from fabric.io.files.folders import listed
    from fabric.io.files.hive import found_columns  # for start-up time, too
    from fabric.io.object_options import set_apart  # for start-up time, too
    from fabric.io.readers.ordered_files import FORMATS  # for start-up time, too
    from fabric.io.sources import source_schema  # for start-up time, too

    verb, (columns, schema, hive, storage_options) = f"read_{format}", shape
    if isinstance(paths, str | bytes | os.PathLike) or not isinstance(paths, Iterable):
        paths = [paths]
    wanted = list(paths)
    settings, secrets = set_apart(storage_options, wanted, verb)
    store = sources.FileSource(format, (), settings=settings, secrets=secrets)
    found = listed(format, wanted, store.store)
    schemas: sources.Schemas = "union" if format == "json" else "strict"
    if isinstance(schema, str):
        schemas = choice(schema, ("strict", "union"), verb, "schema")  # type: ignore[assignment]
    elif format in ("parquet", "ipc"):
        raise PlanError(
            f'{verb} takes schema="strict" or "union": a file says its types itself; to have '
            "others, .cast({…})"
        )
    else:
        options = {**options, "schema": schema}
    given = file_options(options, verb, FORMATS["ndjson" if format == "json" else format].OPTIONS)
    if len(found.paths) > 1 and any(name == "n_rows" for name, _ in given):
        raise PlanError(
            f"{verb}: n_rows counts the rows of one file, and these are {len(found.paths)}; "
            "write: .limit(n)"
        )
    folders = found_columns(found, _hive(hive, verb))
    source = replace(store, paths=found.paths, options=given, hive=folders, schemas=schemas)
    frame = DataFrame.of(nodes.Scan(source, source_schema(source)), None, session)
    if columns is None:
        return frame
    names = [columns] if isinstance(columns, str) else list(columns)
    return frame.select(*known_names(names, frame.columns, verb, partial(_with_columns, verb)))


def _with_columns(verb: str, names: list[str]) -> str:
    return f"{verb}(..., columns={value_text(names)})"


def _hive(hive: Any, verb: str) -> Any:
    if isinstance(hive, Mapping):
        types = {name: to_dtype(dtype) for name, dtype in hive.items()}
        check_zones(pa.schema(list(types.items())))
        return types
    if hive is None or isinstance(hive, bool):
        return hive
    raise PlanError(
        f"{verb}: hive is True, False, or types of columns, got {hive!r}; write: "
        'hive={"month": "string"}'
    )
