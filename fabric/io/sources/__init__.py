"""Tables as sources: files, tables of this process, datasets, and Flight servers.

One job: finding the module that serves a source. The module has the name of the source on the wire
(`WIRE` of its class) and three functions: `source_schema`, its columns; `enumerate_splits`, what
its tasks read; and `read_split`, the rows of a split. Streams are in `fabric/io/readers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import chain
from typing import Any

import pyarrow as pa

from fabric.errors import PlanError
from fabric.io.read_threads import outside
from fabric.plan.expr import Expr
from fabric.plan.sources import SOURCES, FileSource, Source, Split

_GATHERED_BYTES = 256 << 10
_LOOKED_AT = 32
"""Splits in objects of buckets whose heads and footers are asked for together."""


def source_schema(source: Source) -> pa.Schema:
    """Names and types of a source's columns; footers and heads of files are read, rows are not.

    Raises
    ------
    NotFoundError, DataError
        A file is missing, damaged, or differs from the first.
    """
    return serving(source).source_schema(source)


def enumerate_splits(source: Source, n_target: int) -> list[Split]:
    """Parts of about equal size, about `n_target` of them, that tasks read alone."""
    return list(serving(source).enumerate_splits(source, max(1, n_target)))


def read_split(
    source: Source,
    schema: pa.Schema,
    split: Split,
    columns: Sequence[str] | None = None,
    predicate: Expr | None = None,
    *,
    bounded: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of `split`, see `read_splits`."""
    return read_splits(source, schema, [split], columns, predicate, bounded=bounded)


def read_splits(
    source: Source,
    schema: pa.Schema,
    splits: Sequence[Split],
    columns: Sequence[str] | None = None,
    predicate: Expr | None = None,
    *,
    bounded: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of `splits` as `columns` (None: all of `schema`) in that order.

    `predicate` is a hint: rows that can't satisfy it may be left out, the others come all. When
    `bounded`, no more of a mapped file stays resident than the last batches.
    """
    read, at = serving(source).read_split, ""
    hints = {"predicate": predicate, "bounded": bounded} if isinstance(source, FileSource) else {}

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal at
        for number, split in enumerate(splits):
            at = split.uri
            if isinstance(source, FileSource) and not number % _LOOKED_AT:
                some = splits[number : number + _LOOKED_AT]
                serving(source).look_at(source, list(dict.fromkeys(each.uri for each in some)))
            yield from read(source, schema, split, columns, **hints)

    if not isinstance(source, FileSource):
        return rows()
    return chain.from_iterable(outside(_gathered(rows()), lambda: at))


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Small ones together: to hand something over between threads costs as much as a small file."""
    some: list[pa.RecordBatch] = []
    n_bytes = 0
    try:
        for batch in batches:
            some.append(batch)
            n_bytes += batch.nbytes
            if n_bytes >= _GATHERED_BYTES:
                yield some
                some, n_bytes = [], 0
    except Exception:
        yield some  # who has enough of them never hears of it
        raise
    yield some


def serving(source: Source) -> Any:
    """The module of `source`, imported when the first such source comes.

    >>> from fabric.plan.sources import MemorySource
    >>> serving(MemorySource("mem-1", 0)).__name__
    'fabric.io.sources.memory'
    """
    if not isinstance(source, SOURCES):
        raise PlanError(f"nothing here can read a {type(source).__name__}")
    return import_module(f"{__name__}.{source.WIRE}")
