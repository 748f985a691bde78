"""Read a stream of a fabric into Spark: one Spark partition an endpoint, unless told otherwise.

One job: plan partitions on the driver, pull them in Python workers, apply the filters that were
taken. A failed pull raises and Spark retries the task, because sealed partitions and dataset
versions are re-readable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from fabric.clients.spark.casts import conform
from fabric.clients.spark.connection import Agents, agents_of, read_endpoint, stream_info
from fabric.clients.spark.faults import plainly, plainly_each
from fabric.clients.spark.filters import compile_filter, keep_true
from fabric.clients.spark.options import SparkOptions
from fabric.clients.spark.slices import rows_of_share, slices


class FabricReader(DataSourceReader):
    """Pull endpoints; batches are cast to `wanted`, which may name a part of the columns."""

    def __init__(self, options: SparkOptions, wanted: pa.Schema) -> None:
        self.options = options
        self.wanted = wanted
        self.agents: Agents = agents_of(options)
        self.filters: list[Filter] = []

    @plainly
    def partitions(self) -> Sequence[InputPartition]:
        """What each Spark partition reads; never none, as Spark would then read None."""
        found = stream_info(self.options, self.agents).endpoints
        planned = slices(found, self.options.min_partitions, self.options.max_partitions)
        return [InputPartition(one) for one in planned] or [InputPartition(())]

    @plainly_each
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches of one Spark partition."""
        masks = [mask for one in self.filters if (mask := compile_filter(one, self.wanted))]
        for part in partition.value:
            pulled = read_endpoint(part.endpoint, self.agents)
            for batch in rows_of_share(pulled, part.share, part.n_shares):
                rows = conform(batch, self.wanted)
                if masks:
                    rows = keep_true(rows, masks)
                if rows.num_rows:
                    yield rows


class FilteringReader(FabricReader):
    """The same, and takes from Spark what filters it can apply exactly.

    Spark refuses a reader with `pushFilters` while spark.sql.python.filterPushdown.enabled is off,
    so this is a class of its own; `collated` columns are left to Spark.
    """

    def __init__(self, options: SparkOptions, wanted: pa.Schema, collated: frozenset[str]) -> None:
        super().__init__(options, wanted)
        self.collated = collated

    @plainly_each
    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Keep the filters that are applied here, hand back the others."""
        certain = pa.schema([field for field in self.wanted if field.name not in self.collated])
        for one in filters:
            if compile_filter(one, certain) is None:
                yield one
            else:
                self.filters.append(one)
