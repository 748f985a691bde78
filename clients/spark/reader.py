"""Read a stream of a fabric into Spark: one Spark partition an endpoint.

One job: list endpoints on the driver, pull one of them in a Python worker. A failed pull raises and
Spark retries the task, because sealed partitions and dataset versions are re-readable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from fabric.clients.spark.connection import read_endpoint, stream_info
from fabric.clients.spark.faults import plainly, plainly_each
from fabric.clients.spark.options import SparkOptions
from fabric.clients.spark.types import conform


class FabricReader(DataSourceReader):
    """Pull endpoints; batches are cast to `wanted`, which may name a part of the columns."""

    def __init__(self, options: SparkOptions, wanted: pa.Schema) -> None:
        self.options = options
        self.wanted = wanted

    @plainly
    def partitions(self) -> Sequence[InputPartition]:
        """One a Flight endpoint."""
        return [InputPartition(endpoint) for endpoint in stream_info(self.options).endpoints]

    @plainly_each
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches of one endpoint."""
        for batch in read_endpoint(partition.value, self.options.token):
            yield conform(batch, self.wanted)
