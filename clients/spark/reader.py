"""Read a stream of a fabric into Spark: one Spark partition an endpoint, unless told otherwise.

One job: plan partitions on the driver, pull them in Python workers, apply the filters that were
taken. A failed pull raises and Spark retries the task, because sealed partitions and dataset
versions are re-readable.

`slices` says which Spark partition reads what: endpoints, several endpoints, or a share of one.
`rows_of_share` cuts a stream by row numbers, not by batches, so a share is the same whenever the
endpoint gives its rows in the same order; sealed partitions and datasets do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from fabric.clients.spark.connection import (
    Agents,
    Endpoint,
    agents_of,
    plainly,
    plainly_each,
    read_endpoint,
    stream_info,
)
from fabric.clients.spark.filters import compile_filter, keep_true
from fabric.clients.spark.options import SparkOptions
from fabric.clients.spark.types import conform


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


RUN_ROWS = 16_384
"""Rows go to shares in turn, so many at a time."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Share `share` of `n_shares` of an endpoint's rows."""

    endpoint: Endpoint
    share: int = 0
    n_shares: int = 1


def slices(endpoints: Sequence[Endpoint], least: int = 0, most: int = 0) -> list[tuple[Slice, ...]]:
    """What each Spark partition reads, in the order of the endpoints.

    One endpoint a partition; fewer than `least` are shared by several partitions each, more than
    `most` (0: no bound) are read several by one partition.

    >>> ends = [Endpoint(("grpc://h:1",), b"a"), Endpoint(("grpc://h:1",), b"b")]
    >>> [[(s.endpoint.ticket, s.share, s.n_shares) for s in one] for one in slices(ends, least=3)]
    [[(b'a', 0, 1)], [(b'b', 0, 2)], [(b'b', 1, 2)]]
    >>> len(slices(ends, most=1))
    1
    """
    n = len(endpoints)
    if most and n > most:
        ends = [n * k // most for k in range(most + 1)]
        return [
            tuple(Slice(endpoint) for endpoint in endpoints[begin:end])
            for begin, end in pairwise(ends)
        ]
    return [
        (Slice(endpoint, share, n_shares),)
        for i, endpoint in enumerate(endpoints)
        for n_shares in [max(1, least * (i + 1) // n - least * i // n)]
        for share in range(n_shares)
    ]


def rows_of_share(
    batches: Iterable[pa.RecordBatch], share: int, n_shares: int
) -> Iterator[pa.RecordBatch]:
    """The rows of one share, in order.

    >>> batch = pa.record_batch({"n": range(40_000)})
    >>> [piece.num_rows for piece in rows_of_share([batch], 0, 2)]
    [16384, 7232]
    """
    if n_shares == 1:
        yield from batches
        return
    row = 0
    for batch in batches:
        begin = 0
        while begin < batch.num_rows:
            run = (row + begin) // RUN_ROWS
            end = min(batch.num_rows, (run + 1) * RUN_ROWS - row)
            if run % n_shares == share:
                yield batch.slice(begin, end - begin)
            begin = end
        row += batch.num_rows
