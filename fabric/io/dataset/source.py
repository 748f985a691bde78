"""Reading datasets of this fabric inside a task.

One job: the functions `fabric.io.registry` dispatches to for a `DatasetSource`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from fabric.control import control_pb2 as pb
from fabric.errors import DataError, InternalError, NotFoundError
from fabric.flight.ticket import DatasetRequest, decode_request
from fabric.io.dataset.access import current
from fabric.io.dataset.replicas import read_replica
from fabric.io.dataset.splits import dataset_schema, dataset_splits
from fabric.plan.sources import DatasetSource, Split


def source_schema(source: DatasetSource) -> pa.Schema:
    """The dataset's schema; `NotFoundError` when there is none of this name and version."""
    return dataset_schema(_location(source))


def enumerate_splits(source: DatasetSource, n_target: int = 0) -> list[Split]:
    """One split a partition, however many are wanted."""
    return dataset_splits(_location(source))


def read_split(
    source: DatasetSource, schema: pa.Schema, split: Split, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one partition from an owner, with `columns` in their order (None: all)."""
    access = current()
    request, _ = decode_request(split.ticket)
    if not isinstance(request, DatasetRequest):
        raise InternalError(f"a split of dataset {source.name!r} holds another ticket")
    for batch in read_replica(access, request, split.uri.split(",")):
        if not batch.schema.equals(schema):
            raise DataError(f"dataset {source.name!r} was replaced by one with other columns")
        yield batch if columns is None else batch.select(list(columns))


def _location(source: DatasetSource) -> pb.DatasetLocation:
    location = current().location(source.name)
    if source.version not in (0, location.version):
        raise NotFoundError(
            f"dataset {source.name!r} is at version {location.version}, version "
            f"{source.version} is not kept"
        )
    return location
