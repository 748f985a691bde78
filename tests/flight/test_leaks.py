"""What servers, streams and jobs leave behind once they are over: no thread, descriptor, memory."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys

import pyarrow as pa

from fabric._cython.shuffle.store.budget import Budget
from fabric._cython.shuffle.store.store import Store
from fabric.clock import SystemClock
from fabric.flight.remote import FlightTransport
from fabric.flight.ticket import PartitionRequest
from fabric.io.kafka.splits import enumerate_partitions, kafka_schema
from fabric.io.readers import open_reader
from fabric.io.readers.protocol import Polled
from fabric.plan.places import RowFormat
from fabric.plan.sources import KafkaStream
from tests.services.kafka import kafka_broker
from tests.support.flight_rig import FlightRig
from tests.support.leaks import n_kafka_threads
from tests.support.wait import wait_until

SOAK = bool(os.environ.get("FABRIC_SOAK"))
SCHEMA = pa.schema([("k", pa.int64())])
ROWS = pa.record_batch({"k": range(1000)}, SCHEMA)


def grown(kind: str, n: int, n_bytes: int) -> dict[str, int]:
    """How much more a process holds after something was done `n` times, see the module."""
    command = [sys.executable, "-m", "tests.support.leaks", kind, str(n), str(n_bytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout))


def test_a_hundred_servers_leave_nothing() -> None:
    found = grown("servers", 100, 1 << 20)
    assert found["threads"] <= 0
    assert found["descriptors"] <= 0
    assert found["bytes"] < 8 << 20


def test_streams_leave_memory_flat() -> None:
    found = grown("streams", *((100, 100 << 20) if SOAK else (10, 20 << 20)))
    assert found["threads"] <= 0
    assert found["descriptors"] <= 8  # connections are kept, four an address
    assert found["bytes"] < 16 << 20


def test_jobs_of_a_thousand_tasks_leave_memory_flat() -> None:
    n = 30 if SOAK else 2
    found = grown("jobs", n, 1000)
    assert found["threads"] <= 0
    assert found["descriptors"] <= 0
    assert found["objects"] < n * 20  # a few events and a status
    assert found["blocks"] < n * 500  # not one for each task
    assert found["bytes"] < (16 << 20) + n * (256 << 10)


def test_checkpoints_of_a_sink_of_kafka_leave_memory_flat() -> None:
    n = 3000 if SOAK else 300
    found = grown("epochs", n, 100)
    assert found["descriptors"] <= 0
    assert found["objects"] < n
    assert found["blocks"] < 3 * n


def test_a_reader_of_kafka_that_is_closed_leaves_no_thread() -> None:
    """Nor until Python collects: a task that begins again and again would have all of them."""
    broker = kafka_broker()
    topic, columns = broker.new_topic("closed"), pa.schema([("value", pa.binary())])
    broker.produce(topic, [(b"k", b"v")])
    source = KafkaStream(broker.servers, (topic,), value=RowFormat("raw"))
    splits = enumerate_partitions(source)
    gc.collect()
    before = n_kafka_threads()
    gc.disable()
    try:
        reader = open_reader(source, kafka_schema(source, None, columns), SystemClock())
        try:
            reader.open(splits)
            wait_until(lambda: isinstance(reader.poll(10, 0.05), Polled))
        finally:
            reader.close()
        wait_until(lambda: n_kafka_threads() <= before)
    finally:
        gc.enable()


def test_what_came_and_nobody_took_counts(rig: FlightRig) -> None:
    budget = Budget(1 << 40)
    store = Store("a9", budget)
    n_bytes = 200 * 8000  # more than the MiB that is reserved before the first message came
    rig.add_edge("job-1", "n", {("a0", 0, 0): pa.Table.from_batches([ROWS] * 200)})
    request = PartitionRequest(job="job-1", edge=0, node_path="n", partition=0, producers=((0, 0),))
    reader = FlightTransport(rig.signer, agent_id="a9", budget=budget)
    rows = reader.open_rows(rig.address("a0"), request)
    wait_until(lambda: budget.used_bytes >= n_bytes)
    store.begin("job-2", 0, SCHEMA, 1, 0, 0)
    store.append("job-2", 0, 0, 0, ROWS, None)
    assert budget.used_bytes >= n_bytes + 8000
    assert sum(batch.num_rows for batch in rows.take()) > 0
    wait_until(lambda: budget.used_bytes < n_bytes)
    rows.close()
    del rows
    store.release("job-2")
    wait_until(lambda: budget.used_bytes == 0)
    reader.close()
