"""Columns that the names of folders give: ``sales/year=2024/region=north/part-0.parquet``.

One job: find such columns and their types, give a file's values, and leave out files whose values a
predicate excludes. Names and values are percent-decoded; ``__HIVE_DEFAULT_PARTITION__`` is null.
A column's type is the first that holds all its values: int64, double, date32, timestamp[us],
string. A column that files hold too is taken from the folders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa

from fabric.errors import DataError, PlanError
from fabric.io.files.folders import Listed
from fabric.io.files.statistics import pruning_filter
from fabric.plan.expr import Expr
from fabric.plan.sources import EMPTY_SCHEMA, FileSource, Split

NULL = "__HIVE_DEFAULT_PARTITION__"
_KINDS = (
    (pa.int64(), re.compile(r"-?\d{1,19}")),
    (pa.float64(), re.compile(r"-?\d{1,15}(\.\d{1,15})?")),  # no more digits than it holds
    (pa.date32(), re.compile(r"\d{4}-\d\d-\d\d")),
    (pa.timestamp("us"), re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")),
)
_KEPT = re.compile(r"[^%=/\\:*?\"<>|\[\]{}^#'\x00-\x1f\x7f]*")
"""Spark leaves these as they are in names of folders."""


def found_columns(found: Listed, given: Mapping[str, pa.DataType] | bool | None) -> pa.Schema:
    """The columns that the folders of `found` give, with their types.

    `given` are types (others are found), True wants columns even of a single file's path, False
    none; None takes those below a folder or pattern.

    Raises
    ------
    DataError
        Files have different columns, or a value does not fit its type.
    """
    if given is False:
        return EMPTY_SCHEMA
    wanted = set(given) if isinstance(given, Mapping) else set()
    first: tuple[str, ...] | None = None
    texts: dict[str, set[str]] = {}
    for path, root in zip(found.paths, found.roots, strict=True):
        if not root and not given:
            pairs: list[tuple[str, str]] = []
        else:
            pairs = list(_pairs(path, root))
        if not root and wanted:
            pairs = [pair for pair in pairs if pair[0] in wanted]
        names = tuple(name for name, _ in pairs)
        if len(set(names)) < len(names):
            raise DataError(f"{path} has two folders of one column; hive=False reads it without")
        if first is None:
            first = names
        if names != first:
            raise DataError(
                f"{path} has {_columns(names)} in its path, {found.paths[0]} has "
                f"{_columns(first)}; read them apart, or without these columns: hive=False"
            )
        for name, text in pairs:
            texts.setdefault(name, set()).add(text)
    if unknown := sorted(wanted - set(first or ())):
        raise PlanError(
            f"hive names {unknown[0]!r}, and the path of {found.paths[0]} has "
            f"{_columns(first or ())}"
        )
    types = given if isinstance(given, Mapping) else {}
    schema = pa.schema([(n, types.get(n) or _type_of(texts[n])) for n in first or ()])
    if types:  # others were found from the values
        for path in found.paths:
            values_of(path, schema)
    return schema


def _columns(names: Sequence[str]) -> str:
    return f"the columns {', '.join(names)}" if names else "no columns"


def _pairs(path: str, root: str) -> Iterator[tuple[str, str]]:
    """Names and values of the folders between `root` and the file."""
    if "=" not in path:
        return
    for part in path.removeprefix(root).split("/")[:-1]:
        name, found, text = part.partition("=")
        if found and name:
            yield unquote(name), unquote(text)


def names_of(path: str, root: str) -> set[str]:
    """The columns that the folders between `root` and a file give.

    >>> names_of("/data/a=1/b=2/f.csv", "/data/a=1")
    {'b'}
    """
    return {name for name, _ in _pairs(path, root)}


def _type_of(texts: set[str]) -> pa.DataType:
    values = [text for text in texts if text != NULL]
    for dtype, pattern in _KINDS:
        if values and all(pattern.fullmatch(text) for text in values):
            try:
                pa.array(values, pa.string()).cast(dtype)
            except pa.ArrowInvalid:
                continue
            return dtype
    return pa.string()


@lru_cache(maxsize=4096)
def values_of(path: str, schema: pa.Schema) -> tuple[pa.Scalar, ...]:
    """What the folders of `path` say for each column of `schema`.

    >>> values_of("/data/a=1/b=x%20y/f.csv", pa.schema([("a", pa.int64()), ("b", pa.string())]))
    (<pyarrow.Int64Scalar: 1>, <pyarrow.StringScalar: 'x y'>)
    """
    texts = dict(_pairs(path, ""))  # the innermost of a name counts
    values = []
    for name, dtype in zip(schema.names, schema.types, strict=True):
        text = texts[name]
        try:
            scalar = pa.scalar(None if text == NULL else text, pa.string()).cast(dtype)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"the folder {name}={text} of {path} is not a valid {dtype}; give another type, as "
                f'in hive={{"{name}": "string"}}'
            ) from error
        values.append(scalar)
    return tuple(values)


def columns_of(path: str, schema: pa.Schema, n_rows: int) -> list[pa.Array]:
    """Arrays of `n_rows` times the values of `path`."""
    return [pa.repeat(value, n_rows) for value in values_of(path, schema)]


def useful(source: FileSource, predicate: Expr | None, splits: Sequence[Split]) -> Sequence[Split]:
    """The splits of files whose folders don't exclude all rows by `predicate`."""
    known = pruning_filter(predicate, source.hive) if len(source.hive) else None
    if known is None or not splits:
        return splits
    paths = list(dict.fromkeys(split.uri for split in splits))
    rows = zip(*(values_of(path, source.hive) for path in paths), strict=True)
    columns = [
        pa.array([value.as_py() for value in column], dtype)
        for column, dtype in zip(rows, source.hive.types, strict=True)
    ]
    table = pa.table([*columns, pa.array(paths)], [*source.hive.names, "\0path"])
    kept = set(table.filter(known).column("\0path").to_pylist())
    return [split for split in splits if split.uri in kept]


def folder_of(names: Sequence[str], values: Sequence[Any]) -> str:
    """The folders of one combination of values, as Spark writes them.

    >>> folder_of(["a", "b"], ["x/y", None])
    'a=x%2Fy/b=__HIVE_DEFAULT_PARTITION__'
    """
    parts = zip(names, values, strict=True)
    return "/".join(f"{_escaped(n)}={NULL if v is None else _escaped(str(v))}" for n, v in parts)


def _escaped(text: str) -> str:
    if _KEPT.fullmatch(text):
        return text
    return "".join(c if _KEPT.fullmatch(c) else quote(c, safe="") for c in text)
