"""What Python does without an engine: confluent-kafka's client, a loop, and a codec.

One job: the same cases in plain loops, over fewer rows: `json` of the standard library, fastavro.
Rows end as, and begin as, Arrow columns, as they do in Fabric.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from bench.harness import Case
from bench.kafka import broker, data
from bench.kafka.runs import TAKEN, KafkaRun


def taken(case: Case) -> int:
    """How many rows."""
    return min(TAKEN, case.rows)


def read_json_run(case: Case) -> KafkaRun:
    """`json.loads` a record."""
    return _reading(case, json.loads, avro=False)


def read_avro_run(case: Case) -> KafkaRun:
    """fastavro's `schemaless_reader` a record."""
    import fastavro

    schema = fastavro.parse_schema(json.loads(data.AVRO))

    def decode(value: bytes) -> Any:
        return fastavro.schemaless_reader(io.BytesIO(value), schema, schema)

    return _reading(case, decode, avro=True)


def write_json_run(case: Case) -> KafkaRun:
    """`json.dumps` a row, in one transaction."""
    kafka = broker.found()
    n_rows = taken(case)
    rows = data.rows(case.rows, n_rows)

    def write(out: str) -> None:
        records = (
            (row.pop("key").encode(), json.dumps(row).encode())
            for batch in rows.to_batches(data.CHUNK)
            for row in batch.to_pylist()
        )
        data.produce(kafka, out, records, transactional_id=out)

    return KafkaRun(case, write, lambda out: data.read_back(kafka, out), ExitStack(), n_rows)


def _reading(case: Case, decode: Callable[[bytes], Any], *, avro: bool) -> KafkaRun:
    kafka = broker.found()
    n_rows = taken(case)
    topic = data.filled(kafka, case.rows, n_rows, avro=avro)
    types = pa.schema([("key", pa.string()), *data.TYPES])

    def read(_out: str) -> pa.Table:
        batches, rows = list[pa.RecordBatch](), list[dict[str, Any]]()
        for key, value in data.records(kafka, topic):
            row = decode(value)
            row["key"] = key.decode()
            rows.append(row)
            if len(rows) == data.CHUNK:
                batches.append(pa.RecordBatch.from_pylist(rows, types))
                rows = []
        batches.append(pa.RecordBatch.from_pylist(rows, types))
        return pa.Table.from_batches(batches)

    return KafkaRun(case, read, read, ExitStack(), n_rows)
