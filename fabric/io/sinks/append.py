"""Whether rows fit the files of a folder that they are appended to, by batch jobs and streams.

One job: `check_appended`. Together the files must be what a reader of the folder takes: the same
partition columns, and the same columns in the same order. Parquet and IPC files say their types;
those of CSV and JSON are found from values, so only kinds that can't be one column are told apart:
numbers, booleans, times, texts.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import DataError, NotFoundError, PlanError
from fabric.io.files import hive, with_store
from fabric.io.files.folders import listed
from fabric.io.local_files import n_bytes
from fabric.io.schemas import checked_schema, merged
from fabric.io.sinks.encoders import open_encoder
from fabric.io.sinks.parts import file_schema
from fabric.io.sources.file import source_schema
from fabric.plan.sources import FileSource
from fabric.plan.targets import FileTarget, StreamFileTarget
from fabric.plan.types import flat_type

_TEXT = ("csv", "json")
_UNREAD = {"quote": "", "ragged": "skip", "sample_bytes": 1 << 16}
"""CSV read like that shows the quotes of texts."""


def check_appended(target: FileTarget | StreamFileTarget, schema: pa.Schema) -> None:
    """Refuse rows of `schema` that have other columns than the files of `target`, or other folders.

    Raises
    ------
    PlanError
        It names a file in the folder, how the rows differ from it, and what is expected.
    """
    try:
        found = listed(target.format, [target.path], target.store)
    except NotFoundError:
        return
    folders = hive.found_columns(found, None)
    if tuple(folders.names) != target.partition_by:
        raise PlanError(
            f"{target.path} is partitioned by {', '.join(folders.names) or 'nothing'}; append with "
            f"partition_by={folders.names!r}, or write elsewhere"
        )
    wanted = file_schema(schema, target.partition_by)
    with suppress(NotFoundError, FileNotFoundError):  # a stream has just taken it back
        if target.format not in _TEXT:
            source = FileSource(
                target.format, found.paths[-1:], settings=target.settings, secrets=target.secrets
            )
            there = source_schema(source)
            _check_types(target, there, wanted, found.paths[-1])
        elif filled := [path for path in found.paths if n_bytes(path, target.store)]:
            _check_texts(target, wanted, filled[-1])


def _check_types(
    target: FileTarget | StreamFileTarget, there: pa.Schema, wanted: pa.Schema, path: str
) -> None:
    stored = checked_schema(_stored(target, wanted), target.path)
    try:
        merged(there, stored, widen=False)
    except DataError as error:
        raise PlanError(
            f"these rows don't fit {target.path}: {error.message}, in {path}; .cast or .select "
            "them, or write elsewhere"
        ) from None


def _stored(target: FileTarget | StreamFileTarget, schema: pa.Schema) -> pa.Schema:
    """What a file of such rows says of its types: Parquet, for one, has no seconds."""
    import pyarrow.parquet as pq

    file = pa.BufferOutputStream()
    open_encoder(target.format, file, schema, dict(target.options)).close()
    written = pa.BufferReader(file.getvalue())
    if target.format == "parquet":
        return pq.read_schema(written)
    return pa.ipc.open_file(written).schema


def _check_texts(target: FileTarget | StreamFileTarget, wanted: pa.Schema, path: str) -> None:
    given = dict(target.options)
    options: dict[str, Any] = with_store((), target)
    if target.format == "csv":
        options |= {"delimiter": given.get("delimiter", ","), "header": given.get("header", True)}
    there = _found(target.format, path, options)
    if not there.names and target.format == "json":  # no object
        return
    named = options.get("header", True)
    if (there.names != wanted.names) if named else (len(there) != len(wanted)):
        raise PlanError(
            f"{path} has the columns {', '.join(there.names)}, and these rows have "
            f"{', '.join(wanted.names)}; append the same columns in the same order, or write "
            "elsewhere"
        )
    texts = _quoted(target, path, options, there)
    for field, found, quoted in zip(wanted, there.types, texts, strict=False):
        kind = _kind(quoted if _kind(field.type) == "texts" else found)
        if _differ(_kind(field.type), kind):
            raise PlanError(
                f"these rows don't fit {target.path}: column {field.name!r} is {field.type}, and "
                f"{path} has {kind} in it; .cast it, or write elsewhere"
            )


def _quoted(
    target: FileTarget | StreamFileTarget, path: str, options: dict[str, Any], there: pa.Schema
) -> list[pa.DataType]:
    """The types of columns as far as they may be texts that look like something else."""
    if target.format == "json":
        return [pa.string() if t.is_temporal(dtype) else dtype for dtype in there.types]
    if dict(target.options).get("quote_style") == "never":
        return [pa.null()] * len(there)
    return list(_found("csv", path, {**options, **_UNREAD}).types)


def _found(format: Any, path: str, options: dict[str, Any]) -> pa.Schema:
    """Columns and types of a file of text; those without a value are of type null."""
    from fabric.io.files import csv, ndjson

    reader: Any = csv if format == "csv" else ndjson
    schema: pa.Schema = reader.file_schema(path, options)
    return schema


def _differ(wanted: str, there: str) -> bool:
    """Whether a column of both is never of one type; not all times are found to be such."""
    return "" not in (wanted, there) and wanted != there and (wanted, there) != ("times", "texts")


def _kind(dtype: pa.DataType) -> str:
    """What a reader always takes the texts of such values for; empty: it depends on them."""
    flat = flat_type(dtype)
    if t.is_integer(flat) or t.is_floating(flat) or t.is_decimal(flat):
        return "numbers"
    if t.is_boolean(flat):
        return "booleans"
    if t.is_date(flat) or t.is_timestamp(flat):
        return "times"
    return "texts" if t.is_string(flat) or t.is_large_string(flat) else ""
