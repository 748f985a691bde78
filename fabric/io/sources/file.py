"""A `FileSource`: schema, splits and rows of many files of one format.

One job: what all formats share. Files have the columns of the first one, or with `schemas` "union"
a part of the union; folders may give further ones (`hive`). A missing or truncated file, or one
that differs, is an error that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import ConfigError, DataError
from fabric.io import local_files, object_files
from fabric.io.files import Given, csv, file_splits, hive, ipc, ndjson, parquet, with_store
from fabric.io.files.options import check_known
from fabric.io.files.statistics import Known, pruning_filter
from fabric.io.local_files import first_line, reading
from fabric.io.read_threads import outside
from fabric.io.schemas import checked_schema, difference, filled, merged, texts_for_nulls
from fabric.object_urls import is_object_url
from fabric.plan.expr import Expr
from fabric.plan.sources import FileSource, Split

_FORMATS: dict[str, ModuleType] = {"parquet": parquet, "csv": csv, "ipc": ipc, "json": ndjson}
_AT_A_TIME = 16
_HEADLESS = ("csv", "json")
"""Formats without a footer: their types are found from values, or given."""


def source_schema(source: FileSource) -> pa.Schema:
    """Names and types of all columns, after all files were compared."""
    reader, options = _reader(source)
    if not source.paths:
        raise DataError(f"a {source.format} source needs at least one file")
    look_at(source, source.paths)
    paths = [path for path in source.paths if not _is_empty(source, path)] or source.paths
    first, known = paths[0], pa.schema([])
    for path in paths:
        found = checked_schema(reader.file_schema(path, options), path)
        if path == first or found.equals(known):
            known = found
            continue
        try:
            known = merged(known, found, widen=source.schemas == "union")
        except DataError as error:
            way = _way(source, known, found)
            raise DataError(f"{path} differs from {first}: {error.message}; {way}") from None
    return _with_hive(source, texts_for_nulls(known) if source.format in _HEADLESS else known)


def look_at(source: FileSource, paths: Sequence[str]) -> None:
    """Ask the stores about objects, and read their footers, many at once: one after the other would
    be slow. Files of this machine are passed over."""
    object_files.look_at(paths, source.store)
    if source.format == "parquet":
        parquet.look_at(paths, _reader(source)[1])


def _way(source: FileSource, known: pa.Schema, found: pa.Schema) -> str:
    """How files with the columns of both can be read."""
    for name in known.names:
        if name not in found.names:
            continue
        try:
            merged(pa.schema([known.field(name)]), pa.schema([found.field(name)]), widen=True)
        except DataError:
            if source.format == "csv":
                return f'name a type that holds both: types={{"{name}": "string"}}'
            return (
                f"no type holds both: read them apart, .cast column {name!r} to one type, then "
                ".union them; or write one of them anew"
            )
    return 'read them with schema="union" where columns are missing or wider'


def _is_empty(source: FileSource, path: str) -> bool:
    """Whether a text file among others has no byte, as Spark writes a part without rows."""
    if source.format not in _HEADLESS or len(source.paths) == 1:
        return False
    with reading(path, source.format.upper()):
        return local_files.n_bytes(path, source.store) == 0


def _with_hive(source: FileSource, files: pa.Schema) -> pa.Schema:
    """The columns of folders take the places of files' own, others come last."""
    columns = {field.name: field.type for field in files}
    return pa.schema(list((columns | {f.name: f.type for f in source.hive}).items()))


def enumerate_splits(source: FileSource, n_target: int) -> list[Split]:
    """About `n_target` splits of equal size; one a file when there are enough files."""
    reader, options = _reader(source)
    object_files.look_at(source.paths, source.store)
    units = {path: reader.units(path, options) for path in source.paths}
    sizes = {path: sum(u.n_rows or u.n_bytes for u in found) for path, found in units.items()}
    total = sum(sizes.values())
    splits: list[Split] = []
    for path in source.paths:
        share = round(n_target * sizes[path] / total) if total else 1
        splits += file_splits(path, units[path], share)
    return splits


def is_plain(source: FileSource, schema: pa.Schema, paths: Iterable[str]) -> bool:
    """Whether each of `paths` holds exactly the columns of `schema`, in their types.

    A file with nothing but nulls in a column may say no type for it.
    """
    if len(source.hive) or source.schemas != "strict":
        return False
    if source.format in _HEADLESS:  # read as what is wanted
        return True
    reader, options = _reader(source)
    return all(_has_types_of(schema, reader.file_schema(path, options)) for path in paths)


def _has_types_of(schema: pa.Schema, found: pa.Schema) -> bool:
    return not any(
        t.is_null(dtype) and name in schema.names and not t.is_null(schema.field(name).type)
        for name, dtype in zip(found.names, found.types, strict=True)
    )


def read_split(
    source: FileSource,
    schema: pa.Schema,
    split: Split,
    columns: Sequence[str] | None,
    *,
    predicate: Expr | None = None,
    bounded: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of `split` with exactly the types of `schema`; see `sources.read_split`."""
    wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    wanted = checked_schema(wanted, split.uri)
    check_as_planned(source, schema, split)
    if not hive.useful(source, predicate, [split]) or _is_empty(source, split.uri):
        return
    plain = is_plain(source, schema, [split.uri])
    own = _own_columns(source, schema, split.uri, plain)
    inner = pa.schema([f for f in own if f.name in wanted.names]) or pa.schema(list(own)[:1])
    pruning = None if source.format != "parquet" else pruning_filter(predicate, own)
    for batch in _read_file(source, (own, inner), split, pruning, bounded):
        yield _fitted(source, batch, wanted, split.uri, plain)


def _own_columns(source: FileSource, schema: pa.Schema, path: str, plain: bool) -> pa.Schema:
    """The columns that the file itself gives, in the types to read them in."""
    own = pa.schema([f for f in schema if f.name not in source.hive.names])
    if plain or source.format == "json":  # JSON: a missing key is null
        return own if len(own) else _found(source, path)
    found = _found(source, path)
    typed = source.format == "csv"  # text is read as what is wanted, others are cast afterwards
    names = set(own.names) & set(found.names)
    inner = pa.schema([(own if typed else found).field(n) for n in found.names if n in names])
    return inner if len(inner) else found


def _found(source: FileSource, path: str) -> pa.Schema:
    reader, options = _reader(source)
    found = checked_schema(reader.file_schema(path, options), path)
    return texts_for_nulls(found) if source.format in _HEADLESS else found


def _read_file(
    source: FileSource, columns: tuple[pa.Schema, pa.Schema], split: Split, pruning: Known,
    bounded: bool,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Rows of one file with the second of `columns`; the first are all that it gives."""
    (own, inner), (reader, options) = columns, _reader(source)
    if source.format == "parquet":
        groups = parquet.useful_groups(split.uri, split.begin, split.end, pruning, source.store)
        yield from parquet.read_groups(split.uri, groups, inner, source.store)
    elif source.format == "ipc" and bounded and not is_object_url(split.uri):
        yield from ipc.read_bounded(split.uri, inner, split.begin, split.end)
    elif source.format == "json":
        strict = "schema" not in options
        yield from ndjson.read_units(split.uri, options, own, 0, 0, strict=strict)
    else:
        yield from reader.read_units(split.uri, options, inner, split.begin, split.end)


def _fitted(
    source: FileSource, batch: pa.RecordBatch, wanted: pa.Schema, path: str, plain: bool
) -> pa.RecordBatch:
    """`batch` as `wanted`: with the columns of its folders, nulls for missing ones, wider types."""
    if batch.schema.names == wanted.names and plain:
        return pa.RecordBatch.from_arrays(batch.columns, schema=wanted)
    if source.hive.names:
        given = hive.columns_of(path, source.hive, batch.num_rows)
        outside = dict(zip(source.hive.names, given, strict=True))
    else:
        outside = {}
    columns = []
    for name, dtype in zip(wanted.names, wanted.types, strict=True):
        if name in outside:
            column = outside[name]
        elif name not in batch.schema.names:
            column = pa.nulls(batch.num_rows, dtype)
        else:
            column = _widened(batch.column(name), dtype, name, path)
        columns.append(column)
    if not columns:
        return batch.select([])
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _widened(column: pa.Array, dtype: pa.DataType, name: str, path: str) -> pa.Array:
    if column.type.equals(dtype):
        return column
    try:
        return column.cast(dtype)
    except pa.ArrowException as error:
        raise DataError(
            f"column {name!r} of {path} is {column.type}, and a value does not fit {dtype}, which "
            f"it is in other files: {first_line(error)}"
        ) from error


def check_as_planned(source: FileSource, schema: pa.Schema, split: Split) -> None:
    """Raise `DataError` when the file of `split` is no longer what the plan was made with.

    CSV and JSON have no footer; their length is all there is to tell a cut file by.
    """
    if source.format in _HEADLESS:
        _check_length(source, split)
        return
    check_unchanged(source, schema, split.uri)
    if source.format == "parquet" and split.n_rows:
        _check_rows_left(source, split)


def plain_as_planned(source: FileSource, schema: pa.Schema, splits: Sequence[Split]) -> bool:
    """`is_plain` of the files of all `splits`, each checked to be as planned.

    A file at a time, so that the footers of more files than are remembered are read once.
    """
    at = ""

    def some(first: int) -> bool:
        nonlocal at
        plain = True
        for split in splits[first : first + _AT_A_TIME]:
            at = split.uri
            check_as_planned(source, schema, split)
            plain = plain and is_plain(source, schema, [split.uri])
        return plain

    looks = outside(map(some, range(0, len(splits), _AT_A_TIME)), lambda: at)
    return all([*looks])  # each file is looked at


def is_afar(source: FileSource) -> bool:
    """Whether some of its files are objects of buckets."""
    return any(map(is_object_url, source.paths))


def check_unchanged(source: FileSource, schema: pa.Schema, path: str) -> None:
    """Raise `DataError` when `path` has lost columns or changed types since it was planned."""
    if source.format in _HEADLESS:
        return
    reader, options = _reader(source)
    found = reader.file_schema(path, options)
    if found.names == schema.names and found.types == schema.types:
        return
    found = checked_schema(found, path)
    expected = checked_schema(schema, path)
    if text := _change(source, expected, found):
        raise DataError(
            f"{path} has changed since the plan was made: {text}; read it again with a new frame"
        )


def _change(source: FileSource, expected: pa.Schema, found: pa.Schema) -> str:
    """How a file differs from what was planned; empty when it does not."""
    if source.schemas == "union":
        try:
            return difference(expected, _with_hive(source, merged(expected, found, widen=True)))
        except DataError as error:
            return error.message
    return difference(expected, _with_hive(source, filled(found, expected)))


def _check_length(source: FileSource, split: Split) -> None:
    with reading(split.uri, "CSV" if split.uri.endswith(".csv") else "text"):
        n_bytes = local_files.n_bytes(split.uri, source.store)
    if n_bytes < split.n_bytes:
        raise DataError(
            f"{split.uri} has been cut since the plan was made: {n_bytes} bytes where "
            f"{split.n_bytes} were"
        )


def check_split(source: FileSource, schema: pa.Schema, split: Split) -> None:
    """Raise the error that names the file, if it is no longer what `split` was cut from."""
    check_unchanged(source, schema, split.uri)
    _check_rows_left(source, split)


def _check_rows_left(source: FileSource, split: Split) -> None:
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


def _reader(source: FileSource) -> tuple[ModuleType, Given]:
    if source.format not in _FORMATS:
        raise ConfigError(f"there is no file format {source.format!r}; use {', '.join(_FORMATS)}")
    reader = _FORMATS[source.format]
    options = check_known(f"read_{source.format}", reader.OPTIONS, source.options)
    reader.check(options)
    return reader, with_store(source.options, source)
