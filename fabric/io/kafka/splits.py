"""The partitions of Kafka's topics as splits, and the columns of their records.

One job: what is known of a `KafkaStream` before it is read.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.plan.sources import KafkaStream, Split


def kafka_schema(source: KafkaStream) -> pa.Schema:
    """Names and types of a source's columns, where its formats can tell."""
    raise NotImplementedError


def enumerate_partitions(source: KafkaStream) -> list[Split]:
    """The partitions there are, and where each begins and ends."""
    raise NotImplementedError
