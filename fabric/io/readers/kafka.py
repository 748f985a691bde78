"""The records of Kafka's topics; all of it is in `fabric/io/kafka`.

One job: finding that, as for every other source, when it is asked for the first time.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.clock import Clock
from fabric.io.kafka.splits import enumerate_partitions, kafka_schema
from fabric.io.readers.protocol import Share, SplitsOf
from fabric.io.readers.reader import StreamReader
from fabric.plan.sources import KafkaStream, Split


def stream_schema(source: KafkaStream) -> pa.Schema:
    """The columns of key, value and the rest of a record."""
    return kafka_schema(source)


def enumerate_splits(source: KafkaStream, splits_of: SplitsOf) -> list[Split]:
    """The partitions that there are."""
    return enumerate_partitions(source)


def open_reader(
    source: KafkaStream, schema: pa.Schema, clock: Clock, full: pa.Schema, share: Share
) -> StreamReader:
    """The reader of the partitions of one task."""
    from fabric.io.kafka.source import KafkaReader  # the coordinator reads nothing

    return KafkaReader(source, schema, full, share, clock)
