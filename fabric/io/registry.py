"""Every kind of source behind three functions.

One job: find the module that serves a source. Flight and dataset modules are imported when the
first such source comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from fabric.errors import PlanError
from fabric.io.blocking import outside
from fabric.plan.expr import Expr
from fabric.plan.sources import (
    DatasetSource,
    FileSource,
    FlightSource,
    MemorySource,
    Source,
    Split,
)


def source_schema(source: Source) -> pa.Schema:
    """Names and types of a source's columns; footers and heads of files are read, rows are not.

    Raises
    ------
    NotFoundError, DataError
        A file is missing, damaged, or differs from the first.
    """
    return _serve(source).source_schema(source)


def enumerate_splits(source: Source, n_target: int) -> list[Split]:
    """Parts of about equal size, about `n_target` of them, that tasks read alone."""
    return list(_serve(source).enumerate_splits(source, max(1, n_target)))


def read_split(
    source: Source,
    schema: pa.Schema,
    split: Split,
    columns: Sequence[str] | None = None,
    predicate: Expr | None = None,
    *,
    bounded: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of `split` as `columns` (None: all of `schema`) in that order.

    `predicate` is a hint: rows that can't satisfy it may be left out, the others come all. When
    `bounded`, no more of a mapped file stays resident than the last batches.
    """
    read = _serve(source).read_split
    if not isinstance(source, FileSource):
        batches: Iterator[pa.RecordBatch] = read(source, schema, split, columns)
        return batches
    hints = {"predicate": predicate, "bounded": bounded}
    return outside(read(source, schema, split, columns, **hints), split.uri)


def _serve(source: Source) -> Any:
    match source:
        case FileSource():
            from fabric.io.files import source as files

            return files
        case MemorySource():
            from fabric.io import memory

            return memory
        case DatasetSource():
            from fabric.io import dataset

            return dataset
        case FlightSource():
            from fabric.io import flight

            return flight
        case _:
            raise PlanError(f"nothing here can read a {type(source).__name__}")
