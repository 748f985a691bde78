"""A `FileSource`: schema, splits and rows of many files of one format.

One job: what all formats share. Every file's schema must equal the first's; a missing or truncated
file, or one that differs, is an error that names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import stat
from types import ModuleType

import pyarrow as pa

from fabric.errors import ConfigError, DataError
from fabric.io.faults import reading
from fabric.io.files import csv, ipc, parquet
from fabric.io.files.units import file_splits
from fabric.io.schemas import checked_schema, difference
from fabric.plan.expr import Expr
from fabric.plan.sources import FileSource, Split

_FORMATS: dict[str, ModuleType] = {"parquet": parquet, "csv": csv, "ipc": ipc}


def source_schema(source: FileSource) -> pa.Schema:
    """Names and types of the first file, after all others were compared with it."""
    reader, options = _reader(source)
    if not source.paths:
        raise DataError(f"a {source.format} source needs at least one file")
    first = checked_schema(reader.file_schema(source.paths[0], options), source.paths[0])
    for path in source.paths[1:]:
        found = checked_schema(reader.file_schema(path, options), path)
        if text := difference(first, found):
            raise DataError(
                f"{path} differs from {source.paths[0]}: {text}; read them apart, give both the "
                "same columns, then union them"
            )
    return first


def enumerate_splits(source: FileSource, n_target: int) -> list[Split]:
    """About `n_target` splits of equal size; one a file when there are enough files."""
    reader, options = _reader(source)
    units = {path: reader.units(path, options) for path in source.paths}
    sizes = {path: sum(u.n_rows or u.n_bytes for u in found) for path, found in units.items()}
    total = sum(sizes.values())
    splits: list[Split] = []
    for path in source.paths:
        share = round(n_target * sizes[path] / total) if total else 1
        splits += file_splits(path, units[path], share)
    return splits


def read_split(
    source: FileSource,
    schema: pa.Schema,
    split: Split,
    columns: Sequence[str] | None,
    *,
    predicate: Expr | None = None,
    bounded: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of `split` with exactly the types of `schema`; see `registry.read_split`."""
    wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    wanted = checked_schema(wanted, split.uri)
    reader, options = _reader(source)
    check_unchanged(source, schema, split.uri)
    if source.format == "csv":
        _check_length(split)
    if source.format == "parquet":
        from fabric.io.files.pruning import pruning_filter

        pruning = pruning_filter(predicate, schema)
        part = parquet.fragment(split.uri, split.begin, split.end)
        batches = parquet.read_fragment(parquet.pruned(part, pruning), wanted)
    elif source.format == "ipc" and bounded:
        batches = ipc.read_bounded(split.uri, wanted, split.begin, split.end)
    else:
        batches = reader.read_units(split.uri, options, wanted, split.begin, split.end)
    for batch in batches:
        yield pa.RecordBatch.from_arrays(batch.columns, schema=wanted)


def check_unchanged(source: FileSource, schema: pa.Schema, path: str) -> None:
    """Raise `DataError` when `path` has lost columns or changed types since it was planned."""
    if source.format == "csv":
        return
    reader, options = _reader(source)
    found = reader.file_schema(path, options)
    if found.names == schema.names and found.types == schema.types:
        return
    found = checked_schema(found, path)
    if text := difference(checked_schema(schema, path), found):
        raise DataError(
            f"{path} has changed since the plan was made: {text}; read it again with a new frame"
        )


def _check_length(split: Split) -> None:
    """CSV has no footer; its length is all there is to tell a cut file by."""
    with reading(split.uri, "CSV"):
        n_bytes = stat(split.uri).st_size
    if n_bytes < split.n_bytes:
        raise DataError(
            f"{split.uri} has been cut since the plan was made: {n_bytes} bytes where "
            f"{split.n_bytes} were"
        )


def check_split(source: FileSource, schema: pa.Schema, split: Split) -> None:
    """Raise the error that names the file, if it is no longer what `split` was cut from."""
    check_unchanged(source, schema, split.uri)
    reader, options = _reader(source)
    units = reader.units(split.uri, options)
    n_rows = sum(unit.n_rows for unit in units[split.begin : split.end or len(units)])
    if n_rows != split.n_rows or split.end > len(units):
        raise DataError(
            f"{split.uri} has changed since the plan was made: {n_rows} rows where "
            f"{split.n_rows} were"
        )


def check_rows(source: FileSource, schema: pa.Schema, split: Split) -> None:
    """Raise the error that names the file, if a row of `split` can't be read."""
    check_split(source, schema, split)
    for _ in read_split(source, schema, split, None):
        pass


def _reader(source: FileSource) -> tuple[ModuleType, dict[str, str]]:
    if source.format not in _FORMATS:
        raise ConfigError(f"there is no file format {source.format!r}; use {', '.join(_FORMATS)}")
    reader, options = _FORMATS[source.format], dict(source.options)
    for name in options:
        if name not in reader.OPTIONS:
            known = ", ".join(sorted(reader.OPTIONS)) or "none"
            raise ConfigError(f"read_{source.format} has no option {name!r}; it has: {known}")
    return reader, options
