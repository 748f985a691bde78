"""Rows of a dataset's partition from whichever of its owners can give them.

One job: the order in which owners are asked, and going on to the next one. An owner that is gone,
has lost the partition or has a damaged file of it before its first row is passed over, which is
logged; after the first row an error ends the reading, and the task is tried again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from fabric.control.datasets import owners_of
from fabric.errors import (
    DataError,
    FabricError,
    NotFoundError,
    PartitionLostError,
    PeerLostError,
    StorageError,
)
from fabric.flight.ticket import DatasetRequest, Part
from fabric.io.dataset.access import DatasetAccess
from fabric.telemetry.logs import logger

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
