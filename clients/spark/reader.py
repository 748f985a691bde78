"""Read a stream of a fabric into Spark: one Spark partition an endpoint.

One job: list endpoints on the driver, pull one of them in a Python worker. A failed pull raises and
Spark retries the task, because sealed partitions and dataset versions are re-readable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from fabric.clients.spark.connection import read_endpoint, stream_info
from fabric.clients.spark.options import SparkOptions
from fabric.clients.spark.types import conform


@dataclass
class Endpoint(InputPartition):  # type: ignore[misc]
    """One endpoint: where, and the opaque ticket."""

    location: str
    ticket: bytes = field(repr=False)

    def __post_init__(self) -> None:
        super().__init__(self.location)


class FabricReader(DataSourceReader):  # type: ignore[misc]
    """Pull endpoints; batches are cast to `wanted`, which may name a part of the columns."""

    def __init__(self, options: SparkOptions, wanted: pa.Schema) -> None:
        self.options = options
        self.wanted = wanted

    def partitions(self) -> Sequence[InputPartition]:
        """One a Flight endpoint; the endpoint's first location, or the asked agent if it names none."""
        found = stream_info(self.options)
        return [Endpoint(location, ticket) for location, ticket in found.endpoints]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches of one endpoint."""
        assert isinstance(partition, Endpoint)
        for batch in read_endpoint(partition.location, partition.ticket, self.options.token):
            yield conform(batch, self.wanted)
