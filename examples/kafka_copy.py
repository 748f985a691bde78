"""Read a Kafka topic, count in windows, and write the counts to another topic, exactly once.

    pip install 'flight-fabric[kafka]'
    python examples/kafka_copy.py HOST:9092 CLICKS COUNTS

Records of CLICKS are JSON objects with `page` (text) and `at` (milliseconds); both topics must
exist. The program runs until Ctrl-C, and continues from its last checkpoint when it is started
again. A consumer of COUNTS with `isolation.level=read_committed` sees each count once.
"""

from __future__ import annotations

import sys

import fabric


def counted(servers: str, clicks: str) -> fabric.DataFrame:
    """The clicks of each page in windows of ten seconds."""
    rows = fabric.read_kafka(
        clicks, servers=servers, schema={"page": "string", "at": "timestamp[ms]"}
    )
    return (
        rows.with_watermark("at", "5 seconds")
        .group_by("page")
        .window("10 seconds")
        .agg(fabric.count().alias("clicks"))
    )


def main(servers: str, clicks: str, counts: str) -> None:
    """Run until it is interrupted."""
    job = counted(servers, clicks).write_kafka(counts, servers=servers, key="page", name="clicks")
    try:
        job.wait()
    except KeyboardInterrupt:
        job.cancel()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: kafka_copy.py HOST:PORT TOPIC_OF_CLICKS TOPIC_OF_COUNTS")
    main(*sys.argv[1:])
