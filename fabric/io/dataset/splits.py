"""A dataset's partitions as splits: what the coordinator hands to tasks.

One job: from a location to splits, without I/O. A split's `uri` is the owners' agent ids, joined by
commas (which no id holds), and its `ticket` names the version's parts, so that a task reads the
version the job began with.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.control.control_pb2 import DatasetLocation
from fabric.control.datasets import by_partition
from fabric.flight.ticket import DatasetRequest, Part, encode_request
from fabric.plan.sources import Split


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
