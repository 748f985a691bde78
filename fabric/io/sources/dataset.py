"""Reading datasets of this fabric inside a task.

One job: the functions that `fabric.io.sources` calls for a `DatasetSource`.

A split is a partition. Its `uri` is the owners' agent ids, joined by commas (which no id holds),
and its `ticket` names the version's parts, so that a task reads the version the job began with.
An owner that is gone, has lost the partition or has a damaged file of it before its first row is
passed over, which is logged; after the first row an error ends the reading, and the task is tried
again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from fabric.control import control_pb2 as pb
from fabric.control.control_pb2 import DatasetLocation
from fabric.control.datasets import by_partition, owners_of
from fabric.errors import (
    DataError,
    FabricError,
    InternalError,
    NotFoundError,
    PartitionLostError,
    PeerLostError,
    StorageError,
)
from fabric.flight.ticket import DatasetRequest, Part, decode_request, encode_request
from fabric.io.dataset.access import DatasetAccess, current
from fabric.plan.sources import DatasetSource, Split
from fabric.telemetry.logs import logger


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


def dataset_splits(location: DatasetLocation) -> list[Split]:
    """One split a partition; rows are estimated evenly."""
    parts = tuple(Part(p.transaction, p.writer, p.attempt) for p in location.parts)
    n_rows = -(-location.rows // max(1, location.n_partitions))
    return [
        Split(
            uri=",".join(owners),
            ticket=encode_request(
                DatasetRequest(
                    name=location.name,
                    version=location.version,
                    partition=partition,
                    parts=parts,
                )
            ),
            n_rows=n_rows,
        )
        for partition, owners in enumerate(by_partition(location))
    ]


def dataset_schema(location: DatasetLocation) -> pa.Schema:
    """The schema of a location."""
    return pa.ipc.read_schema(pa.py_buffer(location.schema))


_log = logger("fabric.dataset")


def read_replica(
    access: DatasetAccess, request: DatasetRequest, owners: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The rows of one partition; with one owner alone its own error, if it has none to give.

    `owners` are those there were when the job began. When none of several can give it, those that
    took it over since are asked.
    """
    failed: FabricError | None = None
    before = ""
    for owner in _asked(access, request, owners):
        if failed is not None:
            _log.warning(
                "replica passed over", dataset=request.name, partition=request.partition,
                owner=before, next=owner, reason=failed.message,
            )  # fmt: skip
        try:
            rows = iter(access.transport.read_dataset(access.address(owner, request.name), request))
            first = next(rows, None)
        except (PeerLostError, PartitionLostError, DataError, StorageError) as error:
            failed, before = error, owner
            failed.where = replace(error.where, agent=owner)  # by its id, not by its address
            continue
        if first is not None:
            yield first
            yield from rows
        return
    raise failed or PartitionLostError(
        f"partition {request.partition} of dataset {request.name!r} has no owner"
    )


def _asked(access: DatasetAccess, request: DatasetRequest, owners: Sequence[str]) -> Iterator[str]:
    """This agent, the connected ones, the others; then those that own it by now."""
    known = access.locations.addresses()
    yield from sorted(owners, key=lambda owner: (owner != access.agent_id, owner not in known))
    if len(owners) > 1:
        yield from (owner for owner in _owners_now(access, request) if owner not in owners)


def _owners_now(access: DatasetAccess, request: DatasetRequest) -> list[str]:
    try:
        location = access.location(request.name)
    except NotFoundError:
        return []
    here = {Part(part.transaction, part.writer, part.attempt) for part in location.parts}
    return owners_of(location, request.partition) if here.issuperset(request.parts) else []
